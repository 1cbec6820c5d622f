// A job whose launch waits in the queue: a form by which it gives its place up, for those whose token allows it.
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { act, type Job } from "./api";
import { useChange } from "./asking";
import { useRights } from "./rights";

export function GiveUp({ job }: { job: Job }): JSX.Element | null {
  const rights = useRights();
  const [reason, setReason] = useState("");
  const { said, make } = useChange();
  const giveUp = async (): Promise<string> => {
    await act(job.tenant, job.job, "abort", {}, reason);
    return "It has given its place up.";
  };
  const send = (event: Event): void => {
    event.preventDefault();
    void make(giveUp);
  };
  if (!rights?.may_end_jobs) return null;
  return (
    <form class="give-up" onSubmit={send}>
      <label>
        Reason{" "}
        <input required maxLength={256} value={reason} onInput={(event) => setReason(event.currentTarget.value)} />
      </label>{" "}
      <button type="submit">Give up its place</button>
      <p role="status">{said}</p>
    </form>
  );
}
