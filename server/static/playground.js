"use strict";

const base = new URL(".", location.href);
const find = (id) => document.getElementById(id);
const form = find("request");
let models = [];
let watching = null; // the EventSource of the job that is shown

async function api(path, options) {
  const response = await fetch(new URL(path, base), options);
  const body = await response.json();
  if (!response.ok) throw Object.assign(new Error(body.error.message), { param: body.error.param });
  return body;
}

async function start() {
  setInterval(showHealth, 5000);
  await showHealth();
  models = (await api("v1/models")).data;
  find("model").replaceChildren(...models.map((model) => new Option(model.id, model.id)));
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
  }
  find("picture").hidden = model.task === "t2v";
  form.elements.input_reference.required = model.task === "i2v";
  for (const label of document.querySelectorAll(".experts")) label.hidden = model.defaults.boundary_ratio === null;
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
  watching?.close();
  find("job").hidden = false;
  find("video").hidden = true;
  find("video").removeAttribute("src");
  find("download").hidden = true;
  find("job").dataset.id = job.id;
  const facts = { Prompt: job.prompt, Model: job.model, Size: job.size, Frames: job.num_frames, "Frames per second": job.fps, Seed: job.seed };
  find("facts").replaceChildren(...Object.entries(facts).flatMap(([name, value]) => [element("dt", name), element("dd", value)]));
  watching = new EventSource(new URL(`v1/videos/${job.id}/events`, base));
  for (const name of ["progress", "completed", "failed", "deleted"]) {
    watching.addEventListener(name, (event) => showState(name, JSON.parse(event.data)));
  }
}

function showState(name, state) {
  const ended = name !== "progress";
  if (ended) {
    watching.close(); // the browser would ask again
    void showVideos();
  }
  find("cancel").hidden = ended;
  find("progress").value = state.progress ?? 0;
  find("state").textContent = ended ? (state.error?.message ?? name) : words(state);
  if (name === "completed") showVideo(state.id);
}

function words(state) {
  if (state.status === "queued") return `queued, ${state.queue_position ?? 0} before it`;
  return state.stage === null ? state.status : `${state.stage} ${state.step}/${state.steps}`;
}

function showVideo(id) {
  const url = new URL(`v1/videos/${id}/content`, base);
  find("video").src = url;
  find("video").hidden = false;
  find("download").href = url;
  find("download").hidden = false;
}

async function showVideos() {
  const { data } = await api("v1/videos?limit=20");
  find("videos").replaceChildren(...data.map(row));
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
start().catch(showError);
