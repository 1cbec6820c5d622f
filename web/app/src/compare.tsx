// Two runs side by side: what differs in them, what their programs log, and who keeps the others waiting. Both are in the
// address, so that a comparison can be sent.
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { setQuery, show, type Address } from "./address";
import { act, askJson, pathOf, viewOf, type Curve, type Job, type JobList, type Logged, type Worker, type Workers } from "./api";
import { useAsking } from "./asking";
import { Chart, type Line } from "./chart";
import { Confirmed } from "./confirm";
import type { Hang } from "./evidence";
import { bytes, clock, count, percent } from "./format";
import { STOPS_THREADS } from "./hang";
import { hasChanged, useLoad } from "./load";
import { useWatch } from "./live";
import { Empty, Problem, Show, Table, type Column } from "./parts";

const SIDES = ["a", "b"] as const;
type Side = (typeof SIDES)[number];
const NAMES: Record<Side, string> = { a: "first", b: "second" };
const COLOURS: Record<Side, string> = { a: "--own", b: "--waited" };
const WORST = 5;
const PROPOSED = 20;
const NUMBERS_MS = 5000;

interface Run {
  readonly tenant: string;
  readonly name: string;
}

// "TENANT/NAME", as the address has it.
function runOf(text: string | undefined): Run | undefined {
  const [tenant = "", name = "", more] = (text ?? "").split("/");
  return tenant !== "" && name !== "" && more === undefined ? { tenant, name } : undefined;
}

export function ComparePage({ address }: { address: Address }): JSX.Element {
  const a = runOf(address.query["a"]);
  const b = runOf(address.query["b"]);
  return (
    <>
      <h1 tabIndex={-1}>Compare two runs</h1>
      <form class="filters" onSubmit={(event) => event.preventDefault()}>
        {SIDES.map((side) => (
          <Choice key={side} side={side} address={address} />
        ))}
      </form>
      {a && b ? (
        <Compared key={`${a.tenant}/${a.name} ${b.tenant}/${b.name}`} a={a} b={b} />
      ) : (
        <Empty title="Choose two jobs.">
          <p>Running and ended ones can be compared. The address then has both: it can be sent.</p>
        </Empty>
      )}
    </>
  );
}

function Choice({ side, address }: { side: Side; address: Address }): JSX.Element {
  const [typed, setTyped] = useState(address.query[side] ?? "");
  const search = new URLSearchParams([["search", typed], ["limit", String(PROPOSED)]]).toString();
  const loaded = useLoad<JobList>(`compare/${search}`, () => askJson(`/api/v1/jobs?${search}`), ({ type }) => type === "reset");
  const jobs = (loaded.value?.jobs ?? []).map((job) => `${job.tenant}/${job.job}`);
  const take = (text: string): void => {
    setTyped(text);
    if (runOf(text)) setQuery(address, { [side]: text });
  };
  return (
    <label class="choice">
      {`The ${NAMES[side]} job `}
      <input type="search" list={`jobs-${side}`} placeholder="TENANT/NAME" value={typed} autocomplete="off"
        onInput={(event) => setTyped(event.currentTarget.value)} onChange={(event) => take(event.currentTarget.value)} />
      <datalist id={`jobs-${side}`}>
        {jobs.map((job) => (
          <option key={job} value={job} />
        ))}
      </datalist>
    </label>
  );
}

function useRun({ tenant, name }: Run): ReturnType<typeof useLoad<Job>> {
  useWatch(`${tenant}/${name}`);
  return useLoad<Job>(`${tenant}/${name}`, () => askJson(viewOf(tenant, name, "page")), hasChanged(tenant, name), NUMBERS_MS);
}

function Compared({ a, b }: { a: Run; b: Run }): JSX.Element {
  const first = useRun(a);
  const second = useRun(b);
  if (first.problem && first.problem.status !== 0) return <Refused run={a} problem={first.problem} />;
  if (second.problem && second.problem.status !== 0) return <Refused run={b} problem={second.problem} />;
  return (
    <Show of={first}>
      {(left) => (
        <Show of={second}>
          {(right) => (
            <>
              <Facts a={left} b={right} />
              <Settings a={left} b={right} />
              <Curves a={a} b={b} />
              <Worst a={left} b={right} />
            </>
          )}
        </Show>
      )}
    </Show>
  );
}

function Refused({ run, problem }: { run: Run; problem: Parameters<typeof Problem>[0]["problem"] }): JSX.Element {
  return (
    <>
      <p>{`Job ${run.tenant}/${run.name}:`}</p>
      <Problem problem={problem} />
    </>
  );
}

interface Row {
  readonly name: string;
  readonly a: string;
  readonly b: string;
  readonly change?: string;
}

// By how much the second is more than the first.
function changeOf(a: number, b: number): string {
  if (!(a > 0) || !(b > 0)) return "–";
  const more = Math.round((b / a - 1) * 100);
  return more === 0 ? "the same" : `${more > 0 ? "+" : "−"}${Math.abs(more)} %`;
}

const stepMs = (job: Job): number => (job.diagnosis.total.steps > 0 ? (1000 * job.diagnosis.total.seconds) / job.diagnosis.total.steps : 0);
const shownMs = (value: number): string => (value > 0 ? `${value.toPrecision(3)} ms` : "not measured");
const isMeasured = (job: Job): boolean => job.diagnosis.total.seconds > 0;

function factsOf(a: Job, b: Job): Row[] {
  const same = (name: string, of: (job: Job) => string): Row => ({ name, a: of(a), b: of(b) });
  const share = (name: string, of: (job: Job) => number): Row => ({
    name,
    a: isMeasured(a) ? percent(of(a)) : "not measured",
    b: isMeasured(b) ? percent(of(b)) : "not measured",
  });
  const gpus = (job: Job): string => (job.gpus ? `${job.gpus.gpus} x ${job.gpus.name || "GPU"}, ${bytes(job.gpus.memory_total_bytes)}` : "none told of");
  return [
    { name: "Step time", a: shownMs(stepMs(a)), b: shownMs(stepMs(b)), change: changeOf(stepMs(a), stepMs(b)) },
    { ...share("Waiting for ranks", (job) => job.diagnosis.total.waited_percent), change: changeOf(a.diagnosis.total.waited_percent, b.diagnosis.total.waited_percent) },
    share("Own time", (job) => job.diagnosis.total.own_percent),
    share("Collectives", (job) => job.diagnosis.total.transfer_percent),
    { name: "Steps measured", a: count(a.diagnosis.total.steps), b: count(b.diagnosis.total.steps) },
    same("State", (job) => job.state),
    same("Why", (job) => job.reason),
    same("Workers", (job) => count(job.size)),
    same("Workers wanted", (job) => count(job.wanted_size)),
    same("Elastic", (job) => (job.max_size === undefined ? "no" : `${job.min_size} to ${job.max_size} workers`)),
    same("Epoch", (job) => String(job.epoch)),
    same("Epochs lost", (job) => count(job.resets ?? 0)),
    same("Hosts", (job) => count(job.hosts)),
    same("GPUs", gpus),
    same("Created", (job) => clock(job.created_unix_ms)),
  ];
}

function columnsOf(a: string, b: string, withChange: boolean): Column<Row>[] {
  const columns: Column<Row>[] = [
    { name: "What", of: (row) => row.name },
    { name: `First: ${a}`, of: (row) => row.a || "–" },
    { name: `Second: ${b}`, of: (row) => row.b || "–" },
  ];
  return withChange ? [...columns, { name: "Second against first", isNumber: true, of: (row) => row.change ?? "" }] : columns;
}

function Facts({ a, b }: { a: Job; b: Job }): JSX.Element {
  const rows = factsOf(a, b);
  const same = rows.filter((row) => row.a === row.b && row.change === undefined);
  return (
    <section aria-labelledby="facts-title">
      <h2 id="facts-title">What differs</h2>
      <p class="remark">
        {"Times are of the epoch that runs, or ran last. "}
        <a href={show(["jobs", a.tenant, a.job])}>{a.job}</a>, <a href={show(["jobs", b.tenant, b.job])}>{b.job}</a>
      </p>
      <Table label="What differs" columns={columnsOf(a.job, b.job, true)} rows={rows.filter((row) => !same.includes(row))} keyOf={(row) => row.name} />
      {same.length > 0 && <p class="remark">{`The same in both: ${same.map((row) => `${row.name.toLowerCase()} ${row.a}`).join("; ")}.`}</p>}
    </section>
  );
}

// The settings of a job's library are told with its evidence: at a stall, or when it is asked.
function useSettings(job: Job): { settings: string[] | undefined; ask: () => Promise<void> } {
  const [asked, setAsked] = useState<string[] | undefined>(undefined);
  const { tenant, job: name } = job;
  const loaded = useLoad<Hang>(`${tenant}/${name}/settings`, () => askJson(pathOf(tenant, name, "hang")), ({ type }) => type === "reset", 60_000);
  const kept = loaded.value && "settings" in loaded.value && loaded.value.settings.length > 0 ? loaded.value.settings : undefined;
  const ask = async (): Promise<void> => {
    if (job.state !== "running") return;
    const hang = await act<Hang>(tenant, name, "stacks");
    if ("settings" in hang) setAsked(hang.settings);
  };
  return { settings: asked ?? kept, ask };
}

function split(settings: readonly string[]): Map<string, string> {
  return new Map(settings.map((one) => [one.slice(0, one.indexOf("=")), one.slice(one.indexOf("=") + 1)]));
}

function Settings({ a, b }: { a: Job; b: Job }): JSX.Element {
  const left = useSettings(a);
  const right = useSettings(b);
  const { said, ask } = useAsking(async () => {
    await Promise.all([left.ask(), right.ask()]);
  });
  const unknown = [a, b].filter((_, index) => (index === 0 ? left : right).settings === undefined);
  return (
    <section aria-labelledby="settings-title">
      <h2 id="settings-title">Settings that differ</h2>
      {unknown.length > 0 && (
        <p class="remark">{`Not known of ${unknown.map((job) => job.job).join(" and ")}: a job tells its settings and versions when it stalls, or is asked while it runs.`}</p>
      )}
      {[a, b].some((job) => job.state === "running") && (
        <div class="actions">
          <Confirmed name="Ask for the settings now" question={STOPS_THREADS} onConfirm={ask} />
          <p role="status">{said}</p>
        </div>
      )}
      {left.settings && right.settings && <Differences a={a.job} b={b.job} left={split(left.settings)} right={split(right.settings)} />}
    </section>
  );
}

function Differences({ a, b, left, right }: { a: string; b: string; left: Map<string, string>; right: Map<string, string> }): JSX.Element {
  const names = [...new Set([...left.keys(), ...right.keys()])].sort();
  const rows = names
    .filter((name) => left.get(name) !== right.get(name))
    .map((name) => ({ name, a: left.get(name) ?? "not set", b: right.get(name) ?? "not set" }));
  if (rows.length === 0) return <p>{`All ${names.length} are the same.`}</p>;
  return <Table label="Settings that differ" columns={columnsOf(a, b, false)} rows={rows} keyOf={(row) => row.name} />;
}

// One curve of a name: of one that each rank logs, the mean of the ranks at each step.
function curveOf(logged: Logged, name: string): Map<number, number | null> {
  const sums = new Map<number, { sum: number; ranks: number }>();
  for (const curve of logged.series.filter((one: Curve) => one.name === name)) {
    curve.last_step.forEach((step, at) => {
      const value = curve.mean[at];
      if (value === null || value === undefined) return;
      const before = sums.get(step) ?? { sum: 0, ranks: 0 };
      sums.set(step, { sum: before.sum + value, ranks: before.ranks + 1 });
    });
  }
  return new Map([...sums].map(([step, { sum, ranks }]) => [step, sum / ranks]));
}

function useLogged({ tenant, name }: Run): ReturnType<typeof useLoad<Logged>> {
  return useLoad<Logged>(`${tenant}/${name}/metrics`, () => askJson(pathOf(tenant, name, "metrics", { format: "json" })), ({ type }) => type === "reset", NUMBERS_MS);
}

function Curves({ a, b }: { a: Run; b: Run }): JSX.Element {
  const first = useLogged(a);
  const second = useLogged(b);
  return (
    <section aria-labelledby="curves-title">
      <h2 id="curves-title">What their programs log</h2>
      <Show of={first}>{(left) => <Show of={second}>{(right) => <Charts a={a.name} b={b.name} left={left} right={right} />}</Show>}</Show>
    </section>
  );
}

function Charts({ a, b, left, right }: { a: string; b: string; left: Logged; right: Logged }): JSX.Element {
  const names = [...new Set([...left.series, ...right.series].map((curve) => curve.name))].sort();
  if (names.length === 0) return <p class="remark">Neither has logged anything.</p>;
  return (
    <div class="charts">
      {names.map((name) => {
        const curves: Record<Side, Map<number, number | null>> = { a: curveOf(left, name), b: curveOf(right, name) };
        const steps = [...new Set([...curves.a.keys(), ...curves.b.keys()])].sort((x, y) => x - y);
        const lines: Line[] = SIDES.map((side) => ({
          name: `${NAMES[side]}: ${side === "a" ? a : b}`,
          colour: COLOURS[side],
          values: steps.map((step) => curves[side].get(step) ?? null),
          isDashed: side === "b",
        }));
        return <Chart key={name} title={name} unit="" at={steps} lines={lines} isSteps />;
      })}
    </div>
  );
}

function Worst({ a, b }: { a: Job; b: Job }): JSX.Element {
  return (
    <section aria-labelledby="worst-title">
      <h2 id="worst-title">Ranks that the others wait for longest</h2>
      <WorstOf job={a} side="a" />
      <WorstOf job={b} side="b" />
    </section>
  );
}

function WorstOf({ job, side }: { job: Job; side: Side }): JSX.Element {
  const { tenant, job: name } = job;
  const loaded = useLoad<Workers>(
    `${tenant}/${name}/worst`,
    () => askJson(viewOf(tenant, name, "workers", { order: "alone", limit: WORST })),
    hasChanged(tenant, name),
    NUMBERS_MS,
  );
  const columns: Column<Worker>[] = [
    { name: "Rank", isNumber: true, of: (worker) => <a href={show(["jobs", tenant, name, "rank", worker.rank])}>{worker.rank}</a> },
    { name: "Host", of: (worker) => worker.hostname },
    { name: "Missed alone", isNumber: true, of: (worker) => (worker.measured ? `${(worker.measured.alone_seconds ?? 0).toFixed(1)} s` : "–") },
    { name: "Last in steps", isNumber: true, of: (worker) => (worker.measured ? `${count(worker.measured.last_steps ?? 0)} of ${count(worker.measured.steps)}` : "–") },
    { name: "Own", isNumber: true, of: (worker) => percent(worker.measured?.own_percent) },
    { name: "Waits", isNumber: true, of: (worker) => percent(worker.measured?.waited_percent) },
  ];
  const { worst } = job.diagnosis;
  return (
    <>
      <h3>{`${NAMES[side] === "first" ? "First" : "Second"}: ${name}`}</h3>
      {worst && <p class="sentence blocker">{worst.sentence}</p>}
      <Show of={loaded}>
        {(list) => (list.workers.length === 0 ? <p class="remark">No rank is known any more.</p> : <Table label={`Worst ranks of the ${NAMES[side]} job, ${name}`} columns={columns} rows={list.workers} keyOf={(worker) => String(worker.rank)} />)}
      </Show>
    </>
  );
}
