// Reads {secret, body, headers} from standard input; prints what openai-node's unwrap makes of it.
import OpenAI from "openai";

let text = "";
for await (const piece of process.stdin) text += piece;
const { secret, body, headers } = JSON.parse(text);
const client = new OpenAI({ apiKey: "none", webhookSecret: secret });
try {
  console.log(JSON.stringify(await client.webhooks.unwrap(body, headers)));
} catch (error) {
  console.log(JSON.stringify({ refused: error.constructor.name }));
}
