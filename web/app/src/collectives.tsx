// Which tensors cost time, and on whom they wait; below it, in which collectives the ranks are now.
import type { JSX } from "preact";
import { setQuery, showPart } from "./address";
import { askJson, pathOf, viewOf, type CollectiveCost, type CollectiveSurvey, type Collectives as Found, type Job } from "./api";
import { ago, bytes, count, duration, percent, plural, span } from "./format";
import type { JobProps } from "./job";
import { hasChanged, isAbout, useLoad, whenVisible } from "./load";
import { Command, Empty, Show, Table, type Column } from "./parts";

// The coordinator asks the ranks no more often than every four seconds.
const SURVEY_MS = 5000;
const KEPT_MS = 15000;

type Survey = Exclude<CollectiveSurvey, { state: "none" }>;

export function Collectives(props: JobProps & { job: Job }): JSX.Element {
  return (
    <>
      <Costs {...props} />
      <Places {...props} />
    </>
  );
}

function Costs({ job, ...props }: JobProps & { job: Job }): JSX.Element {
  const { tenant, name } = props;
  const loaded = useLoad<CollectiveSurvey>(
    `${tenant}/${name}/survey`,
    async () => {
      await whenVisible();
      return askJson(pathOf(tenant, name, "collectives"));
    },
    hasChanged(tenant, name),
    (last) => (last?.state === "asked" ? SURVEY_MS : KEPT_MS),
  );
  return (
    <section aria-labelledby="costs-title">
      <h2 id="costs-title">Which tensors cost time</h2>
      <Show of={loaded}>{(survey) => (survey.state === "none" ? <Nothing why={survey.why} job={job} /> : <Measured {...props} survey={survey} />)}</Show>
    </section>
  );
}

function Nothing({ why, job }: { why: string; job: Job }): JSX.Element {
  return (
    <Empty title="Nothing is known of this job's tensors.">
      <p>{`${why}.`}</p>
      <p>The ranks are asked while this page is open and the job runs. In a terminal, this asks:</p>
      <Command>{`farandole collectives ${job.job}`}</Command>
    </Empty>
  );
}

function about(survey: Survey): string {
  const when =
    survey.asked_unix_ms === 0
      ? "As it was read when the job's processes ended: their latest collectives"
      : survey.state === "kept"
        ? `As the ranks said ${ago(survey.asked_unix_ms, survey.at_unix_ms)}, when they were asked last`
        : "As the ranks say now, since the epoch began";
  const waits = `all ranks together waited ${span(survey.waited_ms)} for others, and ${span(survey.moving_ms)} for data`;
  return `${when}. Epoch ${survey.epoch}: ${count(survey.answered)} of ${plural(survey.size, "rank")} answered; ${waits}.`;
}

function Measured({ survey, ...props }: JobProps & { survey: Survey }): JSX.Element {
  return (
    <>
      <p class="remark">{about(survey)}</p>
      {survey.collectives.length === 0 ? (
        <Empty title="No collective was measured yet.">
          <p>A tensor appears when its first collective is over.</p>
        </Empty>
      ) : (
        <CostTable {...props} survey={survey} />
      )}
      {survey.left_out > 0 && <p class="remark">{`A rank has ${plural(survey.left_out, "name")} more, which took it less time.`}</p>}
      {survey.silent.length > 0 && (
        <ul>
          {survey.silent.map((one) => (
            <li key={one.why}>{`${one.ranks}: ${one.why}`}</li>
          ))}
        </ul>
      )}
    </>
  );
}

const rate = (value: number): string => (value > 0 ? `${bytes(value)}/s` : "–");

const ORDERS: Record<string, (one: CollectiveCost) => number> = {
  cost: (one) => one.waited_ms + one.moving_ms,
  waits: (one) => one.waited_ms,
  wait: (one) => one.mean_wait_ms,
  longest: (one) => one.longest_wait_ms,
  data: (one) => one.mean_moving_ms,
  bus: (one) => one.bus_bytes_per_second,
  algorithm: (one) => one.algorithm_bytes_per_second,
  bytes: (one) => one.bytes,
  count: (one) => one.count,
};

function CostTable({ tenant, name, address, survey }: JobProps & { survey: Survey }): JSX.Element {
  const chosen = address.query["order"] ?? "";
  const order = Object.hasOwn(ORDERS, chosen) ? chosen : "cost";
  const search = address.query["tensor"] ?? "";
  const rank = (number: number): JSX.Element => <a href={showPart(tenant, name, "rank", number)}>{`rank ${number}`}</a>;
  const columns: Column<CollectiveCost>[] = [
    {
      name: "Tensor",
      of: (one) => (
        <>
          <code>{one.name}</code> <span class="remark">{`${one.op}${one.group > 0 ? ` of process set ${one.group}` : ""}${one.is_on_gpu ? ", on GPUs" : ""}`}</span>
        </>
      ),
    },
    { name: "Time of a rank", isNumber: true, order: "cost", of: (one) => span((one.waited_ms + one.moving_ms) / Math.max(1, survey.answered)) },
    { name: "Of all waits", isNumber: true, order: "waits", of: (one) => percent(one.wait_percent) },
    { name: "Wait", isNumber: true, order: "wait", of: (one) => span(one.mean_wait_ms) },
    { name: "Longest wait", isNumber: true, order: "longest", of: (one) => <>{span(one.longest_wait_ms)} {rank(one.longest_wait_rank)}</> },
    { name: "Came last", of: (one) => <Last one={one} isWhole={survey.answered === survey.size} rank={rank} /> },
    { name: "Data", isNumber: true, order: "data", of: (one) => (one.mean_moving_ms > 0 ? span(one.mean_moving_ms) : "–") },
    { name: "Bus bandwidth", isNumber: true, order: "bus", of: (one) => rate(one.bus_bytes_per_second) },
    { name: "Algorithm's", isNumber: true, order: "algorithm", of: (one) => rate(one.algorithm_bytes_per_second) },
    { name: "Size", isNumber: true, order: "bytes", of: (one) => bytes(one.bytes) },
    { name: "Count", isNumber: true, order: "count", of: (one) => count(one.count) },
  ];
  const keyOf = ORDERS[order] ?? (() => 0);
  const rows = survey.collectives
    .filter((one) => one.name.toLowerCase().includes(search.toLowerCase()))
    .sort((a, b) => keyOf(b) - keyOf(a));
  return (
    <>
      <div class="filters">
        <input
          type="search"
          aria-label="Search tensors"
          placeholder="Search tensors"
          value={search}
          onInput={(event) => setQuery(address, { tensor: event.currentTarget.value })}
        />
      </div>
      {survey.found > survey.collectives.length && (
        <p class="remark">{`The ${count(survey.collectives.length)} of ${count(survey.found)} that cost the most time.`}</p>
      )}
      {rows.length === 0 ? (
        <Empty title="No tensor has such a name.">
          <p>Among those that cost the most time.</p>
        </Empty>
      ) : (
        <Table
          label="Tensors"
          columns={columns}
          rows={rows}
          keyOf={(one) => `${one.group}/${one.name}`}
          ordered={order}
          onOrder={(next) => setQuery(address, { order: next })}
        />
      )}
    </>
  );
}

// Of the latest collectives; where the ranks' records have none in common, the rank that has waited least.
function Last({ one, isWhole, rank }: { one: CollectiveCost; isWhole: boolean; rank: (number: number) => JSX.Element }): JSX.Element {
  const [first] = one.last;
  if (first)
    return (
      <>
        {rank(first.rank)} {`in ${count(first.times)} of ${count(one.compared)}`}
      </>
    );
  if (one.compared > 0) return <>{isWhole ? "all together" : "none that answered"}</>;
  if (one.least_wait_ms * 2 < one.mean_wait_ms)
    return (
      <>
        {rank(one.least_wait_rank)} waits least: {span(one.least_wait_ms)}
      </>
    );
  return <>–</>;
}

type Place = Found["collectives"][number];

function Places({ tenant, name }: JobProps): JSX.Element {
  const loaded = useLoad<Found>(
    `${tenant}/${name}/collectives`,
    () => askJson(viewOf(tenant, name, "collectives")),
    isAbout(tenant, name),
  );
  const columns: Column<Place>[] = [
    { name: "Collective", of: (row) => <code>{row.name}</code> },
    { name: "Submitted last by", isNumber: true, of: (row) => count(row.submitted) },
    { name: "Waiting", isNumber: true, of: (row) => count(row.waiting) },
    { name: "Running on", isNumber: true, of: (row) => count(row.running) },
    { name: "Longest wait", isNumber: true, of: (row) => (row.waiting > 0 ? duration(row.longest_wait_ms) : "–") },
    {
      name: "For example",
      of: (row) => (row.submitted > 0 ? <a href={showPart(tenant, name, "rank", row.first_rank)}>rank {row.first_rank}</a> : "–"),
    },
  ];
  return (
    <section aria-labelledby="places-title">
      <h2 id="places-title">Where the ranks are</h2>
      <Show of={loaded}>
        {(found) =>
          found.found === 0 ? (
            <Empty title="No collective is known.">
              <p>Ranks tell it twice a second while an epoch runs and has been measured.</p>
            </Empty>
          ) : (
            <>
              <p class="remark">{`As ${count(found.measured)} ranks said in their last half second; ${count(found.found)} collectives.`}</p>
              <Table label="Collectives" columns={columns} rows={found.collectives} keyOf={(row) => row.name} />
            </>
          )
        }
      </Show>
    </section>
  );
}
