// The official JavaScript client, unchanged but for its base URL, which the variable REELSERVE_TEST_URL has.

import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { test } from 'node:test';

import OpenAI, { BadRequestError, ConflictError, NotFoundError, toFile } from 'openai';

const api = new OpenAI({ baseURL: `${process.env.REELSERVE_TEST_URL}/v1`, apiKey: 'none', timeout: 240_000 });
const picture = await readFile(process.env.REELSERVE_TEST_PICTURE);
const quick = { model: 'sora-2', prompt: 'a red circle', size: '64x32', num_frames: 5, num_inference_steps: 2, seed: 7 };

const finished = async ({ id }) => {
  for (;;) {
    const video = await api.videos.retrieve(id);
    if (video.status === 'completed' || video.status === 'failed') return video;
    assert.ok(['queued', 'in_progress'].includes(video.status), video.status);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
};
const made = async (fields) => {
  const video = await finished(await api.videos.create({ ...quick, ...fields }));
  assert.equal(video.status, 'completed', JSON.stringify(video.error));
  return video;
};
const content = async ({ id }, query) => {
  const response = await api.videos.downloadContent(id, query);
  return { type: response.headers.get('content-type'), bytes: Buffer.from(await response.arrayBuffer()) };
};

test('a video from create to its bytes', async () => {
  const video = await made({});
  assert.deepEqual([video.object, video.progress, video.seconds, video.size], ['video', 100, '0.3125', '64x32']);
  const { type, bytes } = await content(video);
  assert.equal(type, 'video/mp4');
  assert.equal(bytes.subarray(4, 8).toString(), 'ftyp');
});

test('zeros reach the model', async () => {
  const video = await api.videos.create({ ...quick, seed: 0, guidance_scale: 0, guidance_scale_2: 0.0, boundary_ratio: 0 });
  assert.deepEqual([video.seed, video.guidance_scale, video.guidance_scale_2, video.boundary_ratio], [0, 0, 0, 0]);
});

test('booleans, lists and nested objects', async () => {
  const fields = {
    stream: false,
    characters: [],
    metadata: { people: [{ name: 'a', age: 1 }, { name: 'b', age: 2 }], tags: ['x', 'y'] },
    video_codec_options: { crf: 51, preset: 'veryfast' },
    extra_params: { guidance_scale: 0, boundary_ratio: 0.5 },
  };
  const video = await made(fields);
  assert.deepEqual([video.guidance_scale, video.boundary_ratio], [0, 0.5]);
  const fine = await made({ ...fields, video_codec_options: { crf: 1 } });
  assert.ok((await content(fine)).bytes.length > (await content(video)).bytes.length);
});

test('every way to give a picture is the same video', async () => {
  const uri = `data:image/png;base64,${picture.toString('base64')}`;
  const references = [
    await toFile(picture, 'first.png', { type: 'image/png' }),
    new File([picture], 'first.png'),
    new Response(picture),
    { image_url: uri },
  ];
  const files = [];
  for (const input_reference of references) {
    files.push((await content(await made({ model: 'tiny-wan-ti2v', output_format: 'pt', input_reference }))).bytes);
  }
  for (const file of files) assert.ok(file.equals(files[0]));
});

test('pages are walked in order', async () => {
  const ids = [];
  for (let count = 0; count < 5; count += 1) ids.push((await api.videos.create(quick)).id);
  const newest = [];
  for await (const { id } of api.videos.list({ limit: 2 })) {
    newest.push(id);
    if (newest.length === 5) break;
  }
  assert.deepEqual(newest, ids.toReversed());
  const rest = [];
  for await (const { id } of api.videos.list({ limit: 2, order: 'asc', after: ids[0] })) rest.push(id);
  assert.deepEqual(rest, ids.slice(1));
});

test('a deleted video is not found', async () => {
  const video = await made({});
  assert.deepEqual(await api.videos.delete(video.id), { id: video.id, object: 'video.deleted', deleted: true });
  for (const call of [() => api.videos.retrieve(video.id), () => content(video), () => api.videos.delete(video.id)]) {
    await assert.rejects(call, (error) => error instanceof NotFoundError && error.code === 'video_not_found');
  }
});

test('a cancelled video is failed, and an illegal move is not tried again', async () => {
  const video = await api.videos.create({ ...quick, size: '160x96', num_inference_steps: 200, num_frames: 161 });
  await assert.rejects(() => content(video), (error) => error instanceof NotFoundError && error.code === 'video_not_ready');
  await api.post(`/videos/${video.id}/cancel`);
  assert.equal((await finished(video)).error.code, 'cancelled');
  await assert.rejects(
    () => api.post(`/videos/${video.id}/cancel`),
    (error) => error instanceof ConflictError && error.headers.get('x-should-retry') === 'false',
  );
});

for (const [field, value, param] of [
  ['guidance_scale', 99, 'guidance_scale'],
  ['size', '720p', 'size'],
  ['seed', [1, 2], 'seed[]'],
  ['seed', { value: 1 }, 'seed[value]'],
  ['video_codec_options', { preset: 'warp' }, 'video_codec_options[preset]'],
  ['num_frames', true, 'num_frames'],
  ['misspelt', 1, 'misspelt'],
]) {
  test(`${param} is named where it is wrong`, async () => {
    await assert.rejects(
      () => api.videos.create({ ...quick, [field]: value }),
      (error) =>
        error instanceof BadRequestError &&
        error.param === param &&
        error.code === (field === 'misspelt' ? 'unknown_parameter' : 'invalid_value') &&
        error.type === 'invalid_request_error' &&
        error.requestID !== null,
    );
  });
}

test('an unknown model is not found', async () => {
  await assert.rejects(
    () => api.videos.create({ ...quick, model: 'sora-9' }),
    (error) => error instanceof NotFoundError && error.code === 'model_not_found' && error.param === 'model',
  );
});

test('the generic post is JSON and means the same', async () => {
  const posted = await api.post('/videos', { body: { ...quick, output_format: 'pt' } });
  const bytes = (await content(await finished(posted))).bytes;
  assert.ok(bytes.equals((await content(await made({ output_format: 'pt' }))).bytes));
});

test('previews are pictures', async () => {
  const video = await made({});
  assert.equal((await content(video, { variant: 'thumbnail' })).type, 'image/webp');
  assert.equal((await content(video, { variant: 'spritesheet' })).type, 'image/jpeg');
});

test('a remix takes over the parameters of its source', async () => {
  const source = await made({ guidance_scale: 3 });
  const video = await finished(await api.videos.remix(source.id, { prompt: 'a blue circle', guidance_scale_2: 0 }));
  assert.deepEqual([video.status, video.remixed_from_video_id], ['completed', source.id]);
  assert.deepEqual([video.prompt, video.guidance_scale, video.guidance_scale_2], ['a blue circle', 3, 0]);
});

test('what no model can do yet is 501, and not tried again', async () => {
  const { id } = await made({});
  const file = await toFile(Buffer.from('\0\0\0\x18ftypmp42'), 'a.mp4');
  for (const call of [
    () => api.videos.edit({ prompt: 'blue', video: { id } }),
    () => api.videos.edit({ prompt: 'blue', video: file }),
    () => api.videos.extend({ prompt: 'on', seconds: '4', video: { id } }),
    () => api.videos.createCharacter({ name: 'a', video: file }),
  ]) {
    await assert.rejects(
      call,
      (error) =>
        error.status === 501 && error.code === 'not_supported' && error.headers.get('x-should-retry') === 'false',
    );
  }
});

test('the served models', async () => {
  const ids = [];
  for await (const { id } of api.models.list()) ids.push(id);
  assert.deepEqual(ids, ['tiny-wan-t2v', 'tiny-wan-i2v', 'tiny-wan-ti2v', 'tiny-minimax-h3', 'tiny-wan-s2v']);
});
