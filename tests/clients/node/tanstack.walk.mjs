// What TanStack AI's adapter sends. argv: the server's address, a picture.

import { readFile } from 'node:fs/promises';

import { generateVideo, getVideoJobStatus } from '@tanstack/ai';
import { createOpenaiVideo } from '@tanstack/ai-openai';

const [url, picture] = process.argv.slice(2);
const adapter = (model) => createOpenaiVideo(model, 'none', { baseURL: `${url}/v1` });
const prompt = 'a red circle';

const sora = adapter('sora-2');
const { jobId } = await generateVideo({ adapter: sora, prompt });
while ((await getVideoJobStatus({ adapter: sora, jobId })).status !== 'completed') {
  await new Promise((resolve) => setTimeout(resolve, 200));
}
const value = (await readFile(picture)).toString('base64');
const parts = [
  { type: 'text', content: prompt },
  { type: 'image', source: { type: 'data', value, mimeType: 'image/png' } },
];
await generateVideo({ adapter: adapter('tiny-wan-ti2v'), prompt: parts });
// Refused, since the tiny models make no such size; sent all the same.
const debug = { errors: false };
await generateVideo({ adapter: sora, prompt, size: '1280x720', duration: 4, debug }).catch(() => undefined);
