// One job: its verdict first, and below it the part that the address names.
import type { JSX } from "preact";
import { show, showPart, type Address } from "./address";
import { askJson, viewOf, type Blocker, type Checkpoints as CheckpointList, type Job, type Means } from "./api";
import { Actions } from "./actions";
import { Charts } from "./charts";
import { CheckpointTable, Checkpoints } from "./checkpoints";
import { Collectives } from "./collectives";
import { EndJob } from "./departures";
import { ago, bytes, clock, count, lossOf, percent, plural, why } from "./format";
import { HangPage } from "./hang";
import { HostPage, Hosts } from "./hosts";
import { useWatch } from "./live";
import { isAbout, useLoad } from "./load";
import { Metrics } from "./metrics";
import { Show, Shares, State } from "./parts";
import { GiveUp } from "./queue";
import { RankPage } from "./rank";
import { Ranks } from "./ranks";

const TABS = ["overview", "ranks", "hosts", "collectives", "hang", "metrics", "checkpoints", "history"] as const;
type Tab = (typeof TABS)[number];

export interface JobProps {
  readonly tenant: string;
  readonly name: string;
  readonly address: Address;
}

export function JobPage({ address }: { address: Address }): JSX.Element {
  const [, tenant = "", name = "", part = "overview", detail] = address.parts;
  useWatch(`${tenant}/${name}`);
  const loaded = useLoad<Job>(
    `${tenant}/${name}`,
    () => askJson(viewOf(tenant, name, "page")),
    isAbout(tenant, name),
  );
  const props = { tenant, name, address };
  const tab: Tab = part === "rank" ? "ranks" : part === "host" ? "hosts" : ((TABS as readonly string[]).includes(part) ? part : "overview") as Tab;
  return (
    <>
      <nav class="crumbs" aria-label="Where you are">
        <a href="#/">Jobs</a> <span aria-hidden="true">/</span> <span>{tenant}</span>
      </nav>
      <div class="headline">
        <h1 tabIndex={-1}>{name}</h1>
        {loaded.value && <State state={loaded.value.state} />}
        {loaded.value && <a href={show(["compare"], { a: `${tenant}/${name}` })}>Compare with another run</a>}
      </div>
      <Show of={loaded}>
        {(job) => (
          <>
            <Verdict job={job} />
            <nav class="tabs" aria-label="Parts of the job">
              {TABS.map((one) => (
                <a key={one} href={one === "overview" ? showPart(tenant, name) : showPart(tenant, name, one)} aria-current={one === tab ? "page" : undefined}>
                  {one}
                  {one === "ranks" ? ` (${count(job.workers)})` : one === "hosts" ? ` (${count(job.hosts)})` : ""}
                </a>
              ))}
            </nav>
            {part === "rank" && <RankPage key={detail} {...props} job={job} rank={detail ?? ""} />}
            {part === "host" && <HostPage key={detail} {...props} job={job} host={detail ?? ""} />}
            {part !== "rank" && part !== "host" && <Part tab={tab} job={job} props={props} />}
          </>
        )}
      </Show>
    </>
  );
}

function Part({ tab, job, props }: { tab: Tab; job: Job; props: JobProps }): JSX.Element {
  if (tab === "ranks") return <Ranks {...props} job={job} />;
  if (tab === "hosts") return <Hosts {...props} />;
  if (tab === "collectives") return <Collectives {...props} job={job} />;
  if (tab === "hang") return <HangPage {...props} job={job} />;
  if (tab === "metrics") return <Metrics {...props} />;
  if (tab === "checkpoints") return <Checkpoints {...props} />;
  if (tab === "history") return <History job={job} />;
  return <Overview job={job} props={props} />;
}

// Says what slows the job and at what price, why it stands, or why it ended.
function Verdict({ job }: { job: Job }): JSX.Element {
  const blockers = job.state === "running" ? job.diagnosis.blockers : [];
  return (
    <section class="verdict" aria-labelledby="verdict">
      <h2 id="verdict" class="unseen">
        Verdict
      </h2>
      {job.lost.map((worker) => (
        <p key={worker.incarnation} class="sentence lost">
          <span aria-hidden="true">✕ </span>
          {`rank ${worker.rank} (pid ${worker.pid} on ${worker.hostname}) was lost: ${lossOf(worker.state)}`}
        </p>
      ))}
      {job.state !== "running" && <p class={`sentence ${job.state}`}>{job.state === "failed" ? why(job.reason) : job.reason}</p>}
      {job.state === "queued" && <GiveUp job={job} />}
      {blockers.map((one) => (
        <BlockerLine key={`${one.cause}/${one.rank}/${one.host}`} one={one} job={job} />
      ))}
      {job.state === "running" && blockers.length === 0 && (
        <p class="sentence good">
          <span aria-hidden="true">✓ </span>
          {job.diagnosis.now.seconds > 0 ? "Nothing stands out: no rank or host keeps the others waiting." : "Nothing was measured yet; a verdict needs some seconds of training."}
        </p>
      )}
      {job.last_stall && (
        <p class="sentence stalled">
          {`Stalled ${ago(job.last_stall_unix_ms, job.at_unix_ms)}: ${job.last_stall}. `}
          <a href={showPart(job.tenant, job.job, "hang")}>Who waits for whom</a>
        </p>
      )}
    </section>
  );
}

function BlockerLine({ one, job }: { one: Blocker; job: Job }): JSX.Element {
  return (
    <div class="sentence blocker">
      <p>
        <span class="cause">{one.cause}</span> {one.sentence}
      </p>
      <p class="remark">
        {`costs ${percent(one.percent)} of the job's time, ${one.lost_seconds_a_minute.toFixed(1)} s a minute for each other rank; since ${ago(one.since_unix_ms, job.at_unix_ms)}`}
        {one.rank !== undefined && (
          <>
            {" · "}
            <a href={showPart(job.tenant, job.job, "rank", one.rank)}>rank {one.rank}</a>
          </>
        )}
      </p>
    </div>
  );
}

const slowdownOf = ({ slowdown }: Means): string =>
  slowdown > 0 ? `: ${slowdown.toFixed(2)} times as long as if no rank waited for another` : "";

function Overview({ job, props }: { job: Job; props: JobProps }): JSX.Element {
  const spans = [
    { name: "Last half minute", of: job.diagnosis.now },
    { name: `Since epoch ${job.epoch} began`, of: job.diagnosis.total },
  ].filter((span) => span.of.seconds > 0);
  return (
    <>
      <section aria-labelledby="time">
        <h2 id="time">Where the time goes</h2>
        {spans.length === 0 && <p class="remark">Not measured yet: it takes a job of two workers and a few steps.</p>}
        {spans.map((span) => (
          <div class="span" key={span.name}>
            <p>{`${span.name} (${count(span.of.steps)} steps)${slowdownOf(span.of)}`}</p>
            <Shares own={span.of.own_percent} waited={span.of.waited_percent} transfer={span.of.transfer_percent} />
          </div>
        ))}
      </section>
      {job.epoch > 0 && (
        <section aria-labelledby="charts-title">
          <h2 id="charts-title">Over time</h2>
          <Charts {...props} of={{ rank: "all" }} />
        </section>
      )}
      <Facts job={job} />
      <Actions {...props} job={job} />
      <LatestCheckpoints {...props} />
      <EndJob {...props} job={job} />
    </>
  );
}

function Facts({ job }: { job: Job }): JSX.Element {
  const states = Object.entries(job.states).map(([state, ranks]) => `${count(ranks)} ${state}`).join(", ");
  const facts: [string, string][] = [
    ["Workers", `${plural(job.size, "worker")} of ${count(job.wanted_size)} wanted${states ? `: ${states}` : ""}`],
    ["Hosts", count(job.hosts)],
    ["Epoch", `${job.epoch}: ${job.reason}`],
    ["Steps", job.state === "running" && job.steps_per_second !== null ? `${job.steps_per_second.toFixed(1)} a second` : "–"],
    ["Collectives", job.state === "running" ? `${job.batches_per_second.toFixed(1)} a second` : "–"],
    ["Messages about tensors", count(job.negotiation_messages)],
    ["Created", clock(job.created_unix_ms)],
  ];
  if (job.max_size !== undefined) {
    facts.splice(1, 0, ["Elastic", `${job.min_size} to ${job.max_size} workers, ${job.waiting} waiting; ${plural(job.resets ?? 0, "epoch")} lost`]);
  }
  if (job.gpus) {
    const busy = job.gpus.busy_percent === undefined ? "" : `${percent(job.gpus.busy_percent)} busy, `;
    facts.push(["GPUs", `${job.gpus.gpus}: ${busy}${bytes(job.gpus.memory_used_bytes)} of ${bytes(job.gpus.memory_total_bytes)}`]);
  }
  for (const host of job.barred_hosts)
    facts.push([`Barred: ${host.hostname}`, `${plural(host.failures, "failure")}; no worker may join from it for ${Math.round(host.barred_ms / 1000)} s`]);
  return (
    <section aria-labelledby="facts-title">
      <h2 id="facts-title">Facts</h2>
      <dl id="facts">
        {facts.map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ))}
      </dl>
    </section>
  );
}

function LatestCheckpoints({ tenant, name }: JobProps): JSX.Element {
  const loaded = useLoad<CheckpointList>(
    `${tenant}/${name}/latest`,
    () => askJson(viewOf(tenant, name, "checkpoints", { limit: 3 })),
    ({ type }) => type === "reset",
  );
  const list = loaded.value;
  return (
    <section aria-labelledby="latest">
      <h2 id="latest">Latest checkpoints</h2>
      {list && list.found === 0 && <p class="remark">None yet.</p>}
      {list && list.found > 0 && <CheckpointTable list={list} />}
    </section>
  );
}

function History({ job }: { job: Job }): JSX.Element {
  return (
    <section aria-labelledby="history-title">
      <h2 id="history-title">Decisions, the newest first</h2>
      <ol id="history">
        {[...job.history].reverse().map((entry, index) => (
          <li key={`${entry.at_unix_ms}/${index}`}>
            <time dateTime={new Date(entry.at_unix_ms).toISOString()}>{clock(entry.at_unix_ms)}</time>
            <span>{entry.sentence}</span>
          </li>
        ))}
      </ol>
    </section>
  );
}
