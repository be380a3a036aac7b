"use strict";

const base = new URL(".", location.href);
const find = (id) => document.getElementById(id);
const form = find("request");
let models = [];
let watching = null; // the AbortController of what is asked for the job that is shown
let listed = 0; // how often the list of videos was asked for
let key = sessionStorage.getItem("key"); // forgotten with the tab

/* A browser sends no key by itself: neither for an EventSource nor for a video's address. */
async function ask(path, options = {}) {
  const headers = key === null ? {} : { authorization: `Bearer ${key}` };
  const response = await fetch(new URL(path, base), { ...options, headers });
  if (response.ok) return response;
  if (response.status === 401) askForKey();
  const { error } = await response.json();
  throw Object.assign(new Error(error.message), { param: error.param });
}

async function api(path, options) {
  return (await ask(path, options)).json();
}

function askForKey() {
  find("login").hidden = false;
  find("work").hidden = true;
  find("links").hidden = true;
}

function useKey(event) {
  event.preventDefault();
  key = find("key").value.trim();
  find("login").hidden = true;
  start().then(() => sessionStorage.setItem("key", key)).catch(showError);
}

async function start() {
  showError(null);
  await showHealth();
  models = (await api("v1/models")).data;
  find("model").replaceChildren(...models.map((model) => new Option(model.id, model.id)));
  find("work").hidden = false;
  showModel();
  await showVideos();
}

async function showHealth() {
  try {
    const response = await fetch(new URL("health", base));
    const body = await response.json();
    find("health").textContent = response.ok ? `${body.device}, ${body.queued} waiting` : body.status;
  } catch {
    find("health").textContent = "not reachable";
  }
}

/* What is left empty is the model's own: say what that is. */
function showModel() {
  const model = models.find((one) => one.id === find("model").value);
  if (model === undefined) return;
  const defaults = { ...model.defaults, size: `${model.defaults.width}x${model.defaults.height}` };
  for (const field of form.elements) {
    if (field.tagName === "INPUT" && field.name in defaults) field.placeholder = defaults[field.name] ?? "";
    const label = field.closest("label");
    if (label) label.hidden = field.name in model.unused;
  }
  find("picture").hidden = model.image === "none";
  form.elements.input_reference.required = model.image === "required";
  const speaks = model.task === "s2v";
  find("voice").hidden = !speaks;
  form.elements.audio_reference.required = speaks;
  if (speaks) form.elements.num_frames.placeholder = "as long as the voice";
}

async function submit(event) {
  event.preventDefault();
  showError(null);
  const data = new FormData();
  for (const field of form.elements) {
    if (!field.name || field.closest("[hidden]")) continue;
    if (field.type === "file") {
      if (field.files.length > 0) data.append(field.name, field.files[0]);
    } else if (field.value !== "") data.append(field.name, field.value);
  }
  try {
    showJob(await api("v1/videos", { method: "POST", body: data }));
  } catch (error) {
    showError(error);
  }
  await showVideos();
}

function showError(error) {
  for (const field of form.querySelectorAll(".wrong")) field.classList.remove("wrong");
  find("error").hidden = error === null;
  if (error === null) return;
  find("error").textContent = error.message;
  const field = error.param && form.elements.namedItem(error.param);
  if (field instanceof HTMLElement) field.classList.add("wrong");
}

function showJob(job) {
  watching?.abort();
  find("job").hidden = false;
  find("video").hidden = true;
  URL.revokeObjectURL(find("video").src); // does nothing to other addresses
  find("video").removeAttribute("src");
  find("download").hidden = true;
  find("job").dataset.id = job.id;
  const facts = { Prompt: job.prompt, Model: job.model, Size: job.size, Frames: job.num_frames, "Frames per second": job.fps, Seed: job.seed };
  find("facts").replaceChildren(...Object.entries(facts).flatMap(([name, value]) => [element("dt", name), element("dd", value)]));
  watching = new AbortController();
  void watch(job.id, watching.signal);
}

/* Until the job has ended; a connection that breaks is made anew. */
async function watch(id, signal) {
  while (!signal.aborted) {
    try {
      for await (const [name, state] of events(`v1/videos/${id}/events`, signal)) {
        if (showState(name, state)) return;
      }
    } catch (error) {
      if (signal.aborted) return;
      if (!(error instanceof TypeError)) return showError(error); // the server's own words; the network has none
    }
    await new Promise((resolve) => setTimeout(resolve, 1000));
  }
}

async function* events(path, signal) {
  const reader = (await ask(path, { signal })).body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const parts = (text + value.replaceAll("\r", "")).split("\n\n");
    text = parts.pop();
    for (const part of parts) {
      const lines = new Map(part.split("\n").map((line) => [line.slice(0, line.indexOf(":")), line.slice(line.indexOf(":") + 1).trim()]));
      if (lines.has("data")) yield [lines.get("event"), JSON.parse(lines.get("data"))];
    }
  }
}

/* Whether that was the last of them. */
function showState(name, state) {
  const ended = name !== "progress";
  if (ended) void showVideos();
  find("cancel").hidden = ended;
  find("progress").value = state.progress ?? 0;
  find("state").textContent = ended ? (state.error?.message ?? name) : words(state);
  if (name === "completed") showVideo(state.id, watching.signal).catch(showError);
  return ended;
}

function words(state) {
  if (state.status === "queued") return `queued, ${state.queue_position ?? 0} before it`;
  return state.stage === null ? state.status : `${state.stage} ${state.step}/${state.steps}`;
}

async function showVideo(id, signal) {
  const path = `v1/videos/${id}/content`;
  const url = key === null ? new URL(path, base) : URL.createObjectURL(await (await ask(path)).blob());
  if (signal.aborted) return URL.revokeObjectURL(url); // another job is shown by now
  find("video").src = url;
  find("download").download = `${id}.mp4`;
  find("video").hidden = false;
  find("download").href = url;
  find("download").hidden = false;
}

/* Asked for twice at a time, the first answer may come last: it is the older one. */
async function showVideos() {
  const asked = ++listed;
  const { data } = await api("v1/videos?limit=20");
  if (asked === listed) find("videos").replaceChildren(...data.map(row));
}

function row(job) {
  const item = document.createElement("li");
  const show = element("button", "Show");
  show.addEventListener("click", () => showJob(job));
  const remove = element("button", "Delete");
  remove.addEventListener("click", async () => {
    await api(`v1/videos/${job.id}`, { method: "DELETE" });
    await showVideos();
  });
  const prompt = element("span", job.prompt);
  prompt.className = "prompt";
  item.append(prompt, element("span", job.size), element("span", job.error?.code ?? job.status), show, remove);
  return item;
}

function element(tag, text) {
  const made = document.createElement(tag);
  made.textContent = text;
  return made;
}

form.addEventListener("submit", submit);
find("model").addEventListener("change", showModel);
find("cancel").addEventListener("click", () => api(`v1/videos/${find("job").dataset.id}/cancel`, { method: "POST" }));
find("login").addEventListener("submit", useKey);
setInterval(showHealth, 5000);
start().catch(showError);
