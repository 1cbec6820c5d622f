// The buttons of a running job, for callers whose token allows it: they read its stacks, record its timeline, and ask its
// program for a checkpoint.
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { showPart } from "./address";
import { act, askJson, pathOf, type Job, type Timeline, type WantedCheckpoint } from "./api";
import { useAsking, useChange } from "./asking";
import { Confirmed } from "./confirm";
import { ago, clock, count, plural } from "./format";
import { askStacks, STOPS_THREADS } from "./hang";
import type { JobProps } from "./job";
import { hasChanged, useLoad } from "./load";
import { Show } from "./parts";

export function Actions({ job, ...props }: JobProps & { job: Job }): JSX.Element {
  return (
    <section aria-labelledby="actions-title">
      <h2 id="actions-title">Look closer</h2>
      {job.state === "running" && <StacksNow {...props} />}
      <TimelineActions {...props} job={job} />
      <CheckpointNow {...props} job={job} />
    </section>
  );
}

function StacksNow({ tenant, name }: JobProps): JSX.Element {
  const { said, ask } = useAsking(async () => {
    await askStacks(tenant, name);
    location.hash = showPart(tenant, name, "hang");
  });
  return (
    <div class="actions">
      <Confirmed name="Stacks now" question={STOPS_THREADS} onConfirm={ask} />
      <span class="remark">which line each program is in, and who waits for whom</span>
      <p role="status">{said}</p>
    </div>
  );
}

function TimelineActions({ tenant, name, job }: JobProps & { job: Job }): JSX.Element {
  const [turn, setTurn] = useState(0);
  const { said, make } = useChange();
  const loaded = useLoad<Timeline>(`${tenant}/${name}/timeline/${turn}`, () => askJson(pathOf(tenant, name, "timeline")), hasChanged(tenant, name));
  const record = async (is: "on" | "off"): Promise<void> => {
    await make(async () => {
      const done = await act<{ sentence: string }>(tenant, name, "timeline", { record: is });
      return `${done.sentence}.`;
    });
    setTurn((before) => before + 1);
  };
  const runs = job.state === "running" || job.state === "forming";
  return (
    <div class="actions">
      <Show of={loaded}>
        {(timeline) => (
          <>
            {runs && timeline.may_record && !timeline.is_on && (
              <Confirmed name="Start a timeline" onConfirm={() => void record("on")}
                question={`${plural(job.size, "worker")} will send the coordinator all their events until it is stopped${timeline.recording > 0 ? `; timeline ${timeline.recording} will be dropped` : ""}.`} />
            )}
            {runs && timeline.may_record && timeline.is_on && (
              <Confirmed name="Stop the timeline" onConfirm={() => void record("off")}
                question="The workers will send their last events, and record no more. What there is can be downloaded." />
            )}
            {timeline.recording > 0 && <a href={pathOf(tenant, name, "timeline/file")}>Download the timeline</a>}
            <span class="remark">{stateOf(timeline, runs)}</span>
          </>
        )}
      </Show>
      <p role="status">{said}</p>
    </div>
  );
}

function stateOf(timeline: Timeline, runs: boolean): string {
  const rights = runs && !timeline.may_record ? "; your token may not start or stop one" : "";
  if (timeline.recording === 0) return `no timeline was recorded${rights}`;
  const lost = timeline.dropped + timeline.forgotten;
  const missing = lost > 0 ? `, ${count(lost)} events are lost` : "";
  const since = timeline.is_on ? `records since ${ago(timeline.started_unix_ms, timeline.at_unix_ms)}` : `was started ${clock(timeline.started_unix_ms)}, and has ended`;
  return `timeline ${timeline.recording} ${since}${missing}; for Perfetto or chrome://tracing${rights}`;
}

function CheckpointNow({ tenant, name, job }: JobProps & { job: Job }): JSX.Element {
  const { said, make } = useChange();
  const loaded = useLoad<{ may_request: boolean }>(`${tenant}/${name}/checkpoint`, () => askJson(pathOf(tenant, name, "checkpoint")), () => false);
  const request = async (): Promise<string> => {
    await act<WantedCheckpoint>(tenant, name, "checkpoint");
    return "The program is asked for a checkpoint.";
  };
  const runs = job.state === "running" || job.state === "forming";
  const wanted = job.wanted_checkpoint;
  return (
    <div class="actions">
      {runs && loaded.value?.may_request && (
        <Confirmed name="Checkpoint now" onConfirm={() => void make(request)}
          question="The program is asked to write a checkpoint at its next step, and goes on." />
      )}
      {wanted ? <span class="remark">{wishOf(wanted, job.at_unix_ms)}</span> : runs && <span class="remark">nobody has asked for a checkpoint; the program must call hvd.checkpoint_requested()</span>}
      <p role="status">{said}</p>
    </div>
  );
}

// Says which checkpoint people have asked for, since when, and what came of it.
function wishOf(wanted: WantedCheckpoint, now: number): string {
  const asked = `a checkpoint was asked for ${ago(wanted.since_unix_ms, now)} by ${wanted.asker}${wanted.times > 1 ? `, and ${plural(wanted.times - 1, "time")} more` : ""}`;
  if (wanted.state === "failed") return `${asked}: ${wanted.failure ?? ""}`;
  if (wanted.state === "written") return `${asked}: written at step ${wanted.checkpoint?.step}, ${wanted.checkpoint?.path}`;
  if (wanted.told_unix_ms === 0) return `${asked}; not told yet: its ranks have not all called hvd.checkpoint_requested() since`;
  return `${asked}; its program was told ${ago(wanted.told_unix_ms, now)}, and has committed none yet`;
}
