// TanStack AI's adapter for OpenAI's videos, unchanged but for its base URL.

import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { test } from 'node:test';

import { generateVideo, getVideoJobStatus } from '@tanstack/ai';
import { createOpenaiVideo } from '@tanstack/ai-openai';

const config = { baseURL: `${process.env.REELSERVE_TEST_URL}/v1`, timeout: 240_000 };
const adapter = (model) => createOpenaiVideo(model, 'none', config);
const prompt = 'a red circle';

const finished = async (chosen, jobId) => {
  for (;;) {
    const status = await getVideoJobStatus({ adapter: chosen, jobId });
    if (status.status === 'completed' || status.status === 'failed') return status;
    assert.ok(['pending', 'processing'].includes(status.status), status.status);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
};

test('a prompt becomes a video in a data URL', async () => {
  const sora = adapter('sora-2');
  const { jobId } = await generateVideo({ adapter: sora, prompt });
  const status = await finished(sora, jobId);
  assert.equal(status.status, 'completed', JSON.stringify(status));
  assert.equal(status.progress, 100);
  const [head, base64] = status.url.split(',');
  assert.equal(head, 'data:video/mp4;base64');
  assert.equal(Buffer.from(base64, 'base64').subarray(4, 8).toString(), 'ftyp');
});

test('a picture in the prompt is its first frame', async () => {
  const value = (await readFile(process.env.REELSERVE_TEST_PICTURE)).toString('base64');
  const parts = [
    { type: 'text', content: prompt },
    { type: 'image', source: { type: 'data', value, mimeType: 'image/png' } },
  ];
  const chosen = adapter('tiny-wan-ti2v');
  const { jobId } = await generateVideo({ adapter: chosen, prompt: parts });
  assert.equal((await finished(chosen, jobId)).status, 'completed');
  // The adapter hides an error whose message has the word "videos" behind one of its own.
  await assert.rejects(() => generateVideo({ adapter: adapter('sora-2'), prompt: parts }), { param: 'input_reference' });
});

test('a size over the limit of the model is refused', async () => {
  const asked = generateVideo({ adapter: adapter('sora-2'), prompt, size: '1280x720', duration: 4 });
  await assert.rejects(asked, { status: 400, param: 'size' });
});

test('a job that is not there has failed', async () => {
  const status = await getVideoJobStatus({ adapter: adapter('sora-2'), jobId: `video_${'0'.repeat(32)}` });
  assert.equal(status.status, 'failed');
});
