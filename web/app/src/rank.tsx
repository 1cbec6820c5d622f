// One rank: what it does now, and what it has done.
import type { JSX } from "preact";
import { showPart } from "./address";
import { askJson, viewOf, type Job, type Rank, type Worker } from "./api";
import { Charts } from "./charts";
import { DrainRank } from "./departures";
import { bytes, count, duration, lossOf, percent } from "./format";
import type { JobProps } from "./job";
import { isAbout, useLoad, valueOf } from "./load";
import { Show, Shares, State } from "./parts";

export function RankPage({ tenant, name, address, job, rank }: JobProps & { job: Job; rank: string }): JSX.Element {
  const loaded = useLoad<Rank>(
    `${tenant}/${name}/rank/${rank}`,
    () => askJson(viewOf(tenant, name, "rank", { rank })),
    isAbout(tenant, name),
  );
  return (
    <section aria-labelledby="rank-title">
      <h2 id="rank-title">{`Rank ${rank}`}</h2>
      <DrainRank tenant={tenant} name={name} job={job} worker={valueOf(loaded)?.worker} />
      <Show of={loaded}>
        {({ worker }) => (
          <>
            <Now worker={worker} host={showPart(tenant, name, "host", worker.host_id)} />
            <h3>Over time</h3>
            <Charts tenant={tenant} name={name} address={address} of={{ rank }} />
          </>
        )}
      </Show>
    </section>
  );
}

// Says in words what the program does now.
function doing(worker: Worker): string {
  if (!worker.measured) return worker.state === "live" ? "not measured yet" : worker.state;
  if (worker.running) return `'${worker.running}' runs since ${duration(worker.running_ms ?? 0)}`;
  const last = worker.last_submitted ? `'${worker.last_submitted}'` : "nothing by name";
  return (worker.waiting_ms ?? 0) > 0 ? `waits for the others since ${duration(worker.waiting_ms ?? 0)}; submitted last: ${last}` : `its own work; submitted last: ${last}`;
}

// As docs/diagnosis.md has it.
const SLOW_BELOW = 0.75;

function Score({ of, title, verdict }: { of: number | undefined; title: string; verdict: string }): JSX.Element | null {
  if (of === undefined || of <= 0) return null;
  const isSlow = of < SLOW_BELOW;
  return (
    <div class={isSlow ? "warn" : ""}>
      <dt>{title}</dt>
      <dd>{`${of.toFixed(2)}${isSlow ? `: ${verdict}` : ""}`}</dd>
    </div>
  );
}

function Now({ worker, host }: { worker: Worker; host: string }): JSX.Element {
  const { measured } = worker;
  return (
    <>
      <p>
        <State state={worker.state} /> pid {worker.pid} on <a href={host}>{worker.hostname}</a>
      </p>
      {lossOf(worker.state) && <p class="sentence lost">{`lost: ${lossOf(worker.state)}`}</p>}
      <dl class="tiles">
        <div><dt>does</dt><dd>{doing(worker)}</dd></div>
        <div><dt>collectives</dt><dd>{count(worker.batches)}</dd></div>
        <div><dt>heard of</dt><dd>{`${duration(worker.silence_ms)} ago`}</dd></div>
        {measured && <div><dt>last in</dt><dd>{`${count(measured.last_steps ?? 0)} of ${count(measured.steps)} steps`}</dd></div>}
        {measured && <div><dt>missed alone</dt><dd>{`${(measured.alone_seconds ?? 0).toFixed(1)} s of ${Math.round(measured.seconds)}`}</dd></div>}
        <Score of={measured?.score} title="score: the quickest rank's own time over its own" verdict="slow" />
        <Score of={measured?.own_score} title="its best time over its time now" verdict="was quicker" />
        {measured && <div><dt>CPU</dt><dd>{percent(measured.cpu_percent)}</dd></div>}
        {worker.gpu && <div><dt>{worker.gpu.name || "GPU"}</dt><dd>{`${percent(worker.gpu.busy_percent)} busy, ${bytes(worker.gpu.memory_used_bytes)} of ${bytes(worker.gpu.memory_total_bytes)}`}</dd></div>}
      </dl>
      {measured && <Shares own={measured.own_percent} waited={measured.waited_percent} transfer={measured.transfer_percent} />}
    </>
  );
}
