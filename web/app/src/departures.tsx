// Buttons that end a job, or have workers of an elastic one leave, for callers whose token allows it.
import type { JSX } from "preact";
import { act, type Host, type Job, type Worker } from "./api";
import { useChange } from "./asking";
import { Reasoned } from "./confirm";
import { plural } from "./format";
import type { JobProps } from "./job";
import { useRights } from "./rights";

type OfJob = Pick<JobProps, "tenant" | "name"> & { readonly job: Job };

export function EndJob({ tenant, name, job }: OfJob): JSX.Element | null {
  const rights = useRights();
  const { said, make } = useChange();
  const isOffered = rights?.may_end_jobs === true && (job.state === "running" || job.state === "forming");
  if (!isOffered && said === "") return null;
  const end = async (reason: string): Promise<string> => {
    await act(tenant, name, "abort", {}, reason);
    return "The job is ended; its workers are told the reason.";
  };
  return (
    <section aria-labelledby="end-title">
      <h2 id="end-title">End it</h2>
      <div class="actions">
        {isOffered && (
          <Reasoned name="End the job" onConfirm={(reason) => void make(() => end(reason))}
            question={`${plural(job.size, "worker")} will end with the reason that you give, and the job has failed. Checkpoints stay.`} />
        )}
        <p role="status">{said}</p>
      </div>
    </section>
  );
}

interface DrainProps extends OfJob {
  readonly what: string;
  readonly question: string;
  // There are some that have not been asked to leave yet.
  readonly isLive: boolean;
  readonly query: Record<string, string>;
}

function Drain({ tenant, name, job, what, question, isLive, query }: DrainProps): JSX.Element | null {
  const rights = useRights();
  const { said, make } = useChange();
  const isElastic = job.min_size !== undefined;
  const isOffered = rights?.may_end_jobs === true && isElastic && job.state === "running" && isLive;
  if (!isOffered && said === "") return null;
  const drain = async (reason: string): Promise<string> => {
    const { ranks } = await act<{ ranks: number[] }>(tenant, name, "drain", query, reason);
    return `Asked to leave: ${ranks.length === 1 ? "rank" : "ranks"} ${ranks.join(", ")}.`;
  };
  return (
    <div class="actions">
      {isOffered && <Reasoned name={`Drain this ${what}`} question={question} onConfirm={(reason) => void make(() => drain(reason))} />}
      <p role="status">{said}</p>
    </div>
  );
}

// `worker` is undefined while it is loaded, and after it has left: the answer to the button stays on the page.
export function DrainRank({ worker, ...props }: OfJob & { worker: Worker | undefined }): JSX.Element {
  return (
    <Drain {...props} what="rank" isLive={worker?.state === "live"} query={{ rank: String(worker?.rank) }}
      question={`Its worker, pid ${worker?.pid} on ${worker?.hostname}, will leave at the program's next commit. The others go on without it.`} />
  );
}

// `host` is undefined as a rank's worker is.
export function DrainHost({ host, ...props }: OfJob & { host: Host | undefined }): JSX.Element {
  return (
    <Drain {...props} what="host" isLive={host !== undefined && host.live > 0} query={{ host: host?.hostname ?? "" }}
      question={`All workers on ${host?.hostname} will leave at the program's next commit. The others go on without them.`} />
  );
}
