// All jobs that the token may see: those that need somebody to look come first.
import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { setQuery, show, type Address } from "./address";
import { askJson, type JobList, type JobState, type Summary } from "./api";
import { ago, count, why } from "./format";
import { useEvents } from "./live";
import { hasStates, useLoad } from "./load";
import { Command, Empty, Pager, Show, State, Table, type Column } from "./parts";

const PAGE = 100;
const STATES: JobState[] = ["running", "forming", "queued", "failed", "finished"];

const linkOf = (job: Summary): string => show(["jobs", job.tenant, job.job]);
const workersOf = (job: Summary): string =>
  job.size === job.wanted_size || job.max_size !== undefined ? count(job.size) : `${job.size} of ${job.wanted_size}`;

function Trouble({ job, now }: { job: Summary; now: number }): JSX.Element {
  if (job.state === "running" && job.blocker) return <span class="blocker">{job.blocker}</span>;
  if (job.state === "running" && job.last_stall)
    return <span class="stalled">{`${ago(job.last_stall_unix_ms, now)}: ${job.last_stall}`}</span>;
  return job.state === "failed" ? <span class="failed">{why(job.reason)}</span> : <span class="remark">{job.reason}</span>;
}

const keyOf = (job: Partial<Summary>): string => `${job.tenant}/${job.job}`;

// Steps a second, as the page has heard of them.
type Pace = { readonly at: number; readonly rate: number };
const PACES_MS = 120_000;
const SPARK = { width: 64, height: 16 };
// They stay while another view is shown.
let paces: ReadonlyMap<string, readonly Pace[]> = new Map();

function notePaces(jobs: readonly Partial<Summary>[]): void {
  const at = Date.now();
  const next = new Map(paces);
  for (const job of jobs) {
    const { steps_per_second: rate } = job;
    if (rate === undefined || rate === null) continue;
    const before = next.get(keyOf(job)) ?? [];
    next.set(keyOf(job), [...before.filter((one) => one.at > at - PACES_MS), { at, rate }]);
  }
  for (const [job, of] of next) if ((of.at(-1)?.at ?? 0) <= at - PACES_MS) next.delete(job);
  paces = next;
}

// The number beside it says the same to a screen reader.
function Spark({ of }: { of: readonly Pace[] }): JSX.Element | null {
  const first = of[0];
  if (first === undefined || of.length < 2) return null;
  const most = Math.max(...of.map((one) => one.rate), 1e-9);
  const x = (at: number): number => SPARK.width + ((at - Date.now()) / PACES_MS) * SPARK.width;
  const y = (rate: number): number => SPARK.height - 1 - (rate / most) * (SPARK.height - 2);
  const points = [...of.map((one) => `${x(one.at).toFixed(1)},${y(one.rate).toFixed(1)}`), `${SPARK.width},${y(of.at(-1)?.rate ?? 0).toFixed(1)}`];
  return (
    <svg class="spark" width={SPARK.width} height={SPARK.height} aria-hidden="true">
      <polyline points={points.join(" ")} />
    </svg>
  );
}

function Steps({ job }: { job: Summary }): JSX.Element {
  if (job.state !== "running" || job.steps_per_second === null) return <>–</>;
  return (
    <>
      <Spark of={paces.get(keyOf(job)) ?? []} /> {job.steps_per_second.toFixed(1)}
    </>
  );
}

function columnsOf(list: JobList): Column<Summary>[] {
  const withTenant = list.is_admin && list.jobs.some((job) => job.tenant !== list.jobs[0]?.tenant);
  return [
    { name: "Job", of: (job) => <a href={linkOf(job)}>{withTenant ? `${job.tenant}/${job.job}` : job.job}</a> },
    { name: "State", of: (job) => <State state={job.state} /> },
    { name: "What slows it, or why it ended", of: (job) => <Trouble job={job} now={list.now_unix_ms} /> },
    { name: "Workers", isNumber: true, of: workersOf },
    { name: "Epoch", isNumber: true, of: (job) => count(job.epoch) },
    { name: "Steps/s", isNumber: true, of: (job) => <Steps job={job} /> },
    { name: "Collectives/s", isNumber: true, of: (job) => (job.state === "running" ? job.batches_per_second.toFixed(1) : "–") },
    { name: "Created", isNumber: true, of: (job) => ago(job.created_unix_ms, list.now_unix_ms) },
  ];
}

// The news for screen readers: changes of state, and new stalls.
function useNews(): string {
  const [news, setNews] = useState("");
  const told = useRef(new Map<string, { state: string; stall: string }>());
  useEvents((heard) => {
    if (heard.kind !== "event" || heard.type !== "jobs") return;
    for (const job of (heard.data as { jobs: Partial<Summary>[] }).jobs) {
      if (job.state === undefined) continue;
      const before = told.current.get(`${job.tenant}/${job.job}`);
      const stall = job.last_stall ?? "";
      if (before?.state !== job.state) setNews(`Job ${job.job} is ${job.state}: ${job.reason}.`);
      else if (stall && before.stall !== stall) setNews(`Job ${job.job} stalls: ${stall}.`);
      told.current.set(`${job.tenant}/${job.job}`, { state: job.state, stall });
    }
  }, []);
  return news;
}

// Numbers that change all the time are written into the list as it is.
function useNumbers(list: JobList | undefined): JobList | undefined {
  const [numbers, setNumbers] = useState<ReadonlyMap<string, Partial<Summary>>>(new Map());
  useEffect(() => {
    setNumbers(new Map());
    notePaces(list?.jobs ?? []);
  }, [list]);
  useEvents((heard) => {
    if (heard.kind !== "event" || heard.type !== "jobs") return;
    const { jobs } = heard.data as { jobs: Partial<Summary>[] };
    notePaces(jobs);
    setNumbers((before) => new Map([...before, ...jobs.map((job) => [keyOf(job), job] as const)]));
  }, []);
  if (!list || numbers.size === 0) return list;
  return { ...list, jobs: list.jobs.map((job) => ({ ...job, ...numbers.get(keyOf(job)) })) };
}

export function Jobs({ address }: { address: Address }): JSX.Element {
  const { search = "", state = "", offset = "0" } = address.query;
  const chosen = state.split(",").filter((one) => one !== "");
  const query = new URLSearchParams([
    ["order", "urgency"],
    ["search", search],
    ["offset", offset],
    ["limit", String(PAGE)],
    ...chosen.map((one): [string, string] => ["state", one]),
  ]).toString();
  const loaded = useLoad<JobList>(query, () => askJson(`/api/v1/jobs?${query}`), hasStates);
  const last = useRef<JobList | undefined>(undefined);
  // A new search keeps the old rows until its answer is there.
  if (loaded.value) last.current = loaded.value;
  const list = useNumbers(loaded.value ?? last.current);
  const news = useNews();
  const toggle = (one: string): void => {
    const next = chosen.includes(one) ? chosen.filter((other) => other !== one) : [...chosen, one];
    setQuery(address, { state: next.join(","), offset: "" });
  };
  return (
    <>
      <h1 tabIndex={-1}>Jobs</h1>
      <p class="unseen" role="status">
        {news}
      </p>
      {list?.store_trouble && (
        <p class="problem" role="alert">
          The coordinator's disk: {list.store_trouble}.
        </p>
      )}
      <form class="filters" role="search" onSubmit={(event) => event.preventDefault()}>
        <label class="unseen" for="search">
          Search jobs
        </label>
        <input
          id="search"
          type="search"
          placeholder="Search name, tenant, reason  ( / )"
          value={search}
          onInput={(event) => setQuery(address, { search: event.currentTarget.value, offset: "" })}
        />
        <div class="chips" role="group" aria-label="States">
          {STATES.map((one) => (
            <button key={one} type="button" class="chip" aria-pressed={chosen.includes(one)} onClick={() => toggle(one)}>
              <State state={one} /> {count(list?.states[one] ?? 0)}
            </button>
          ))}
        </div>
      </form>
      <Show of={list ? { value: list, problem: loaded.problem } : loaded}>
        {(value) => <List list={value} address={address} offset={Number(offset)} />}
      </Show>
    </>
  );
}

function List({ list, address, offset }: { list: JobList; address: Address; offset: number }): JSX.Element {
  if (list.listed === 0) {
    return (
      <Empty title="No jobs yet.">
        <p>A job appears here as soon as its first worker asks for a place:</p>
        <Command>farandole run -np 2 --coordinator HOST:PORT --token-file FILE python train.py</Command>
        <p class="remark">The coordinator has written its address and its token's file into its log.</p>
      </Empty>
    );
  }
  if (list.found === 0) {
    return (
      <Empty title="No job fits.">
        <p>
          {count(list.listed)} jobs are there; none fits this search.{" "}
          <button type="button" onClick={() => setQuery(address, { search: "", state: "", offset: "" })}>
            Show all
          </button>
        </p>
      </Empty>
    );
  }
  return (
    <>
      <Table label="Jobs" columns={columnsOf(list)} rows={list.jobs} keyOf={keyOf} />
      <Pager
        found={list.found}
        offset={offset}
        size={PAGE}
        noun="jobs"
        onMove={(next) => setQuery(address, { offset: String(next) })}
      />
    </>
  );
}
