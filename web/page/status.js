// The status page: asks /api/v1 every second and changes what has changed, so that focus and selection stay.
"use strict";

const PERIOD_MS = 1000;

const byId = (id) => document.getElementById(id);

// The job that the address names: #/jobs/TENANT/NAME.
function selectedJob() {
  const parts = location.hash.split("/").map(decodeURIComponent);
  return parts.length === 4 && parts[1] === "jobs" ? { tenant: parts[2], job: parts[3] } : null;
}

function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

// Makes `parent` hold one child for each of `items`, by their keys; `make()` makes one, `fill(child, item)` says what it
// shows. Children that stay are kept as they are.
function sync(parent, items, keyOf, make, fill) {
  const old = new Map([...parent.children].map((child) => [child.dataset.key, child]));
  let place = parent.firstElementChild;
  for (const item of items) {
    const key = String(keyOf(item));
    let child = old.get(key);
    old.delete(key);
    if (!child) {
      child = make();
      child.dataset.key = key;
    }
    if (child === place) place = place.nextElementSibling;
    else parent.insertBefore(child, place);
    fill(child, item);
  }
  for (const child of old.values()) child.remove();
}

function makeRow(kinds) {
  return () => {
    const row = document.createElement("tr");
    kinds.forEach((kind, index) => {
      const cell = document.createElement(index === 0 ? "th" : "td");
      if (index === 0) cell.scope = "row";
      if (kind === "number" || kind === "gpu") cell.className = kind;
      if (kind === "link") cell.append(document.createElement("a"));
      row.append(cell);
    });
    return row;
  };
}

function ago(unixMs, nowMs) {
  const seconds = Math.max(0, Math.round((nowMs - unixMs) / 1000));
  if (seconds < 120) return `${seconds} s ago`;
  if (seconds < 7200) return `${Math.floor(seconds / 60)} min ago`;
  return seconds < 172800 ? `${Math.floor(seconds / 3600)} h ago` : `${Math.floor(seconds / 86400)} d ago`;
}

const clock = (unixMs) => new Date(unixMs).toLocaleString();
const workersOf = (job) => (job.size === job.wanted_size ? `${job.size}` : `${job.size} of ${job.wanted_size}`);
const rateOf = (job) => (job.state === "running" ? job.batches_per_second.toFixed(1) : "-");
const stallOf = (job, nowMs) => (job.last_stall ? `${ago(job.last_stall_unix_ms, nowMs)}: ${job.last_stall}` : "none");

const gib = (bytes) => (bytes / 2 ** 30).toFixed(1);
function gpuOf(gpu) {
  const parts = [];
  if (gpu.busy_percent !== undefined) parts.push(`${Math.round(gpu.busy_percent)} % busy`);
  if (gpu.memory_total_bytes > 0) parts.push(`${gib(gpu.memory_used_bytes)} of ${gib(gpu.memory_total_bytes)} GiB`);
  return parts.join(", ") || "-";
}

const percent = (value) => `${Math.round(value)} %`;
function sharesOf(measured) {
  if (!measured || measured.seconds === 0) return "not measured";
  const { own_percent: own, waited_percent: waited, transfer_percent: transfer } = measured;
  return `${percent(own)} own, ${percent(waited)} waiting for ranks, ${percent(transfer)} collectives`;
}

// What a screen reader is told: changes of state, and new stalls.
const told = new Map();
function announce(jobs) {
  const news = [];
  for (const job of jobs) {
    const key = `${job.tenant}/${job.job}`;
    const before = told.get(key);
    if (before && before.state !== job.state) news.push(`Job ${job.job} is ${job.state}: ${job.reason}.`);
    if (before && job.last_stall && before.stall !== job.last_stall) news.push(`Job ${job.job} stalls: ${job.last_stall}.`);
    told.set(key, { state: job.state, stall: job.last_stall });
  }
  if (news.length > 0) byId("news").textContent = news.join(" ");
}

const makeJobRow = makeRow(["link", "", "number", "number", "", "", ""]);
function showJobs(jobs, nowMs) {
  const manyTenants = jobs.some((job) => job.tenant !== jobs[0].tenant);
  sync(byId("jobs").tBodies[0], jobs, (job) => `${job.tenant}/${job.job}`, makeJobRow, (row, job) => {
    const [name, state, workers, rate, reason, stall, blocker] = row.cells;
    const link = name.firstElementChild;
    link.href = `#/jobs/${encodeURIComponent(job.tenant)}/${encodeURIComponent(job.job)}`;
    setText(link, manyTenants ? `${job.tenant}/${job.job}` : job.job);
    setText(state, job.state);
    state.className = job.state;
    setText(workers, workersOf(job));
    setText(rate, rateOf(job));
    setText(reason, job.reason);
    setText(blocker, job.state === "running" && job.blocker ? job.blocker : "-");
    setText(stall, stallOf(job, nowMs));
    stall.className = job.last_stall ? "stalled" : "remark";
  });
  byId("jobs").hidden = jobs.length === 0;
  byId("no-jobs").hidden = jobs.length > 0;
}

function makeFact() {
  const fact = document.createElement("div");
  fact.className = "fact";
  fact.append(document.createElement("dt"), document.createElement("dd"));
  return fact;
}

function elasticityOf(job) {
  if (job.max_size === undefined) return "";
  return `, ${job.min_size} to ${job.max_size} possible, ${job.waiting} waiting; ${job.resets} epochs lost`;
}

const makeRankRow = makeRow(["number", "", "number", "number", "number", "", "gpu", "number", "number", "number"]);
const makeCheckpointRow = makeRow(["", "number", "number", "", ""]);
function showJob(job, nowMs) {
  setText(byId("job-title"), `Job ${job.job}`);
  const facts = [
    ["State", `${job.state}: ${job.reason}`],
    ["Tenant", job.tenant],
    ["Workers", `${job.size} of ${job.wanted_size} wanted, epoch ${job.epoch}${elasticityOf(job)}`],
    ["Collectives/s", rateOf(job)],
    ["Last stall", stallOf(job, nowMs)],
    ["Time", sharesOf(job.diagnosis.now.seconds > 0 ? job.diagnosis.now : job.diagnosis.total)],
    ["Created", clock(job.created_unix_ms)],
  ];
  if (job.gpus) facts.splice(4, 0, ["GPUs", `${job.gpus.gpus}: ${gpuOf(job.gpus)}`]);
  sync(byId("facts"), facts, (fact) => fact[0], makeFact, (fact, [name, value]) => {
    setText(fact.children[0], name);
    setText(fact.children[1], value);
  });
  byId("ranks").classList.toggle("without-gpus", !job.workers.some((worker) => worker.gpu));
  sync(byId("ranks").tBodies[0], job.workers, (worker) => worker.incarnation, makeRankRow, (row, worker) => {
    const [rank, host, process, batches, heard, state, gpu, own, waited, transfer] = row.cells;
    setText(rank, job.state === "forming" || worker.state === "waiting" ? "-" : String(worker.rank));
    setText(host, worker.hostname);
    setText(process, String(worker.pid));
    setText(batches, String(worker.batches));
    setText(heard, worker.state === "live" ? `${(worker.silence_ms / 1000).toFixed(1)} s ago` : "-");
    setText(state, worker.state);
    state.className = worker.state.split(":")[0];
    setText(gpu, worker.gpu ? gpuOf(worker.gpu) : "-");
    gpu.title = worker.gpu?.name ?? "";
    setText(own, worker.measured ? percent(worker.measured.own_percent) : "-");
    setText(waited, worker.measured ? percent(worker.measured.waited_percent) : "-");
    setText(transfer, worker.measured ? percent(worker.measured.transfer_percent) : "-");
  });
  const blockers = job.diagnosis.blockers;
  const makeBlocker = () => document.createElement("li");
  sync(byId("blockers"), blockers, (one) => `${one.cause}/${one.rank}/${one.host}`, makeBlocker, (item, one) => {
    setText(item, `${one.sentence} (${percent(one.percent)} of the job's time; began ${ago(one.since_unix_ms, nowMs)})`);
  });
  byId("no-blockers").hidden = blockers.length > 0;
  sync(byId("checkpoints").tBodies[0], job.checkpoints, (one) => `${one.name}/${one.step}`, makeCheckpointRow, (row, one) => {
    const [name, step, bytes, committed, path] = row.cells;
    setText(name, one.name);
    setText(step, String(one.step));
    setText(bytes, String(one.size_bytes));
    setText(committed, clock(one.committed_unix_ms));
    setText(path, one.path);
  });
  byId("checkpoints").hidden = job.checkpoints.length === 0;
  byId("no-checkpoints").hidden = job.checkpoints.length > 0;
  const makeEntry = () => {
    const entry = document.createElement("li");
    entry.append(document.createElement("time"), document.createElement("span"));
    return entry;
  };
  const entries = job.history.map((entry, index) => ({ ...entry, index })).reverse();
  sync(byId("history"), entries, (entry) => `${entry.at_unix_ms}/${entry.sentence}/${entry.index}`, makeEntry, (item, entry) => {
    setText(item.children[0], clock(entry.at_unix_ms));
    setText(item.children[1], entry.sentence);
  });
  byId("job").hidden = false;
}

async function ask(path) {
  const response = await fetch(path, { credentials: "same-origin", cache: "no-store" });
  if (response.status === 401) {
    location.assign("/login");
    throw new Error("the session has ended");
  }
  const body = await response.json();
  if (!response.ok) throw new Error(body.error);
  return body;
}

async function refresh() {
  const { jobs, now_unix_ms: nowMs } = await ask("/api/v1/jobs");
  showJobs(jobs, nowMs);
  announce(jobs);
  const selected = selectedJob() ?? (jobs.length === 1 ? jobs[0] : null);
  if (selected) {
    const query = `?tenant=${encodeURIComponent(selected.tenant)}`;
    showJob(await ask(`/api/v1/jobs/${encodeURIComponent(selected.job)}${query}`), nowMs);
  } else {
    byId("job").hidden = true;
  }
  setText(byId("freshness"), `As of ${new Date(nowMs).toLocaleTimeString()}`);
}

let timer = 0;
let current = null;

async function run() {
  const problem = byId("problem");
  try {
    await refresh();
    problem.hidden = true;
  } catch (error) {
    const what = error instanceof TypeError ? "The coordinator does not answer; this is what it said last." : error.message;
    setText(problem, what);
    problem.hidden = false;
  }
}

// One at a time; the next follows a period after the end of this one.
function tick() {
  clearTimeout(timer);
  if (document.hidden) return Promise.resolve();
  current ??= run().finally(() => {
    current = null;
    timer = setTimeout(tick, PERIOD_MS);
  });
  return current;
}

addEventListener("hashchange", async () => {
  await current;
  await tick();
  if (selectedJob()) byId("job-title").focus();
});
document.addEventListener("visibilitychange", tick);
tick();
