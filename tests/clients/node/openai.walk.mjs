// Every call that openai-node has for videos. argv: the server's address, a picture.

import { readFile } from 'node:fs/promises';

import OpenAI, { toFile } from 'openai';

const [url, picture] = process.argv.slice(2);
const api = new OpenAI({ baseURL: `${url}/v1`, apiKey: 'none' });
const prompt = 'a red circle';
const size = '64x32';
const few = { num_frames: 5, num_inference_steps: 2 };
const extra = {
  ...few,
  seed: 0,
  guidance_scale_2: 0.0,
  boundary_ratio: 1e-7,
  stream: false,
  video_codec_options: { crf: 30, preset: 'veryfast' },
  metadata: { tags: ['x', 'y'], people: [{ name: 'a', age: 1 }, { name: 'b', age: 2 }] },
};
const refused = () => undefined; // 501: no model for it

let video = await api.videos.create({ model: 'sora-2', prompt, size, ...extra });
while (video.status !== 'completed') {
  await new Promise((resolve) => setTimeout(resolve, 200));
  video = await api.videos.retrieve(video.id);
}
await api.videos.delete((await api.videos.create({ prompt, seconds: '4', size })).id);
const file = await toFile(await readFile(picture), 'first.png', { type: 'image/png' });
await api.videos.create({ model: 'tiny-wan-ti2v', prompt, input_reference: file, ...few });
await api.post('/videos', { body: { prompt, size, ...extra } });
await api.videos.list({ limit: 2, order: 'asc', after: video.id });
await (await api.videos.downloadContent(video.id)).arrayBuffer();
await (await api.videos.downloadContent(video.id, { variant: 'thumbnail' })).arrayBuffer();
await api.videos.remix(video.id, { prompt, guidance_scale_2: 0.0 });
await api.videos.edit({ prompt, video: { id: video.id } }).catch(refused);
await api.videos.edit({ prompt, video: await toFile(Buffer.from('\0\0\0\x18ftypmp42'), 'a.mp4') }).catch(refused);
await api.videos.extend({ prompt, seconds: '4', video: { id: video.id } }).catch(refused);
