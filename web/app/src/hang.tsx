// Why a job stands: who waits for whom, the stacks of its programs, and what each rank that matters did last; of the last
// stall, of the job's end, or asked now.
import type { ComponentChildren, JSX } from "preact";
import { useRef, useState } from "preact/hooks";
import { setQuery, showPart } from "./address";
import { act, askJson, pathOf, type Job } from "./api";
import { useAsking } from "./asking";
import { Confirmed } from "./confirm";
import type { Evidence, Frame, Hang, HangWait, Recorder, StackGroup } from "./evidence";
import { ago, bytes, clock, count, duration, plural } from "./format";
import { WaitGraph } from "./graph";
import type { JobProps } from "./job";
import { hasChanged, useLoad } from "./load";
import { Command, Empty, Show, Table, type Column } from "./parts";

// While the coordinator asks the ranks, and otherwise.
const GATHERING_MS = 1000;
const IDLE_MS = 15000;

// The answers of ranks that this page has asked, by job: "Stacks now" is on another part of the page.
const asked = new Map<string, Evidence>();

// The cost for the ranks, told before they are asked.
export const STOPS_THREADS = "Each thread of the ranks is stopped for a moment, while its stack is read. The programs go on.";

// Asks the ranks of a job; the hang page shows what they say. Refusal: the token does not allow it, or the job is away.
export async function askStacks(tenant: string, name: string): Promise<void> {
  asked.set(`${tenant}/${name}`, await act<Evidence>(tenant, name, "stacks"));
}

export function HangPage(props: JobProps & { job: Job }): JSX.Element {
  const { tenant, name, job } = props;
  const key = `${tenant}/${name}`;
  const [, setTurn] = useState(0);
  const loaded = useLoad<Hang>(
    `${key}/hang`,
    () => askJson(pathOf(tenant, name, "hang")),
    hasChanged(tenant, name),
    (last) => (last?.state === "gathering" ? GATHERING_MS : IDLE_MS),
  );
  const fresh = asked.get(key);
  const forget = (): void => {
    asked.delete(key);
    setTurn((turn) => turn + 1);
  };
  return (
    <section aria-labelledby="hang-title">
      <h2 id="hang-title">Who waits for whom</h2>
      {job.state === "running" && <AskAgain {...props} onAnswer={() => setTurn((turn) => turn + 1)} />}
      {fresh ? (
        <>
          <p class="remark">
            {`As the ranks said when you asked, ${clock(fresh.at_unix_ms)}. `}
            <button type="button" onClick={forget}>
              Show the last stall
            </button>
          </p>
          <Found {...props} found={fresh} />
        </>
      ) : (
        <Show of={loaded}>{(hang) => <Kept {...props} hang={hang} />}</Show>
      )}
    </section>
  );
}

function AskAgain({ tenant, name, onAnswer }: JobProps & { onAnswer: () => void }): JSX.Element {
  const download = useRef<HTMLFormElement>(null);
  const { said, ask } = useAsking(async () => {
    await askStacks(tenant, name);
    onAnswer();
  });
  return (
    <div class="actions">
      <Confirmed name="Ask the ranks now" question={STOPS_THREADS} onConfirm={ask} />
      <form ref={download} method="post" action={pathOf(tenant, name, "stacks", { format: "archive" })}>
        <Confirmed name="Ask now, and download all" question={STOPS_THREADS} onConfirm={() => download.current?.submit()} />
      </form>
      <p role="status">{said}</p>
    </div>
  );
}

// The states in which there is nothing to show.
function Kept({ hang, ...props }: JobProps & { job: Job; hang: Hang }): JSX.Element {
  if (!("why" in hang)) {
    return (
      <>
        <p class="remark">
          {hang.stalled_unix_ms > 0
            ? `As the ranks said when the job stalled, ${ago(hang.stalled_unix_ms, hang.at_unix_ms)}. `
            : "As it was read when the job's processes ended. "}
          <a href={pathOf(props.tenant, props.name, "hang/archive")}>Download everything</a>, for a report: it has no tokens.
        </p>
        <Found {...props} found={hang} />
      </>
    );
  }
  const titles = {
    none: "This job has not stalled.",
    gathering: "The job has stalled: evidence is being gathered.",
    gone: "The evidence is not there any more.",
  };
  return (
    <Empty title={titles[hang.state]}>
      <p role={hang.state === "gathering" ? "status" : undefined}>{`${hang.why}.`}</p>
      {hang.state === "none" && <p>When ranks wait for one that does not come, the coordinator asks all of them by itself. In a terminal, this asks now:</p>}
      {hang.state === "none" && <Command>{`farandole diagnose ${props.name}`}</Command>}
    </Empty>
  );
}

function Found({ found, ...props }: JobProps & { found: Evidence }): JSX.Element {
  return (
    <>
      <p class={`sentence ${found.sentence ? "stalled" : "good"}`}>{found.sentence || "No rank waits for another in a collective."}</p>
      <p class="remark">{`Epoch ${found.epoch}: ${count(found.answered)} of ${plural(found.size, "rank")} answered.`}</p>
      {found.waits.length > 0 && <Waits {...props} waits={found.waits} />}
      <Stacks groups={found.stacks} />
      <Recorders {...props} recorders={found.recorders} />
      {found.silent.length > 0 && (
        <section aria-labelledby="silent-title">
          <h3 id="silent-title">Not known</h3>
          <ul>
            {found.silent.map((one) => (
              <li key={one.why}>{`${one.ranks.text}: ${one.why}`}</li>
            ))}
          </ul>
        </section>
      )}
    </>
  );
}

function Waits({ waits, tenant, name }: JobProps & { waits: HangWait[] }): JSX.Element {
  const ranks = (group: { text: string; first: number; count: number }): ComponentChildren =>
    group.count === 1 ? <a href={showPart(tenant, name, "rank", group.first)}>{group.text}</a> : group.text;
  const columns: Column<HangWait & { number: number }>[] = [
    { name: "Arrow", isNumber: true, of: (wait) => wait.number },
    { name: "Who waits", of: (wait) => ranks(wait.waiting) },
    { name: "In", of: (wait) => <code>{`${wait.op} ${wait.name}`}</code> },
    { name: "Process set", isNumber: true, of: (wait) => (wait.group === 0 ? "all" : wait.group) },
    { name: "Since", isNumber: true, of: (wait) => duration(wait.waited_ms) },
    { name: "For whom", of: (wait) => (wait.missing.count > 0 ? ranks(wait.missing) : "nobody: all have submitted it") },
  ];
  return (
    <>
      <WaitGraph waits={waits} />
      <Table label="Waits" columns={columns} rows={waits.map((wait, index) => ({ ...wait, number: index + 1 }))} keyOf={(wait) => String(wait.number)} />
    </>
  );
}

function frameItem(frame: Frame, index: number): JSX.Element {
  return (
    <li key={index}>
      <code>{frame.function}</code> <span class="remark">{frame.file ? `${frame.file}:${frame.line}` : (frame.module ?? "")}</span>
    </li>
  );
}

function Stacks({ groups }: { groups: StackGroup[] }): JSX.Element {
  return (
    <section aria-labelledby="stacks-title">
      <h3 id="stacks-title">What their programs are in</h3>
      {groups.length === 0 && <p class="remark">No stacks were read.</p>}
      {groups.map((group) => (
        <details key={group.ranks.text} class="stack" open={!group.is_dominant || groups.length === 1}>
          <summary>
            {group.is_dominant ? `${group.ranks.text}: most are here` : `${group.ranks.text}: here they differ from most`}
          </summary>
          <ol>
            {group.native_frames.map(frameItem)}
            {group.more_native_frames > 0 && <li class="remark">{`and ${group.more_native_frames} frames of compiled code more, in the archive`}</li>}
            {group.frames.map(frameItem)}
            {group.more_frames > 0 && <li class="remark">{`and ${group.more_frames} frames more, in the archive`}</li>}
          </ol>
          {group.why_no_native && <p class="remark">{`Compiled code: ${group.why_no_native}`}</p>}
          {group.frames.length > 0 && group.about && <p class="remark">{group.about}</p>}
          {group.native_frames.length > 0 && <p class="remark">{`Compiled code: ${group.about_native}`}</p>}
        </details>
      ))}
    </section>
  );
}

// The recorder of one rank at a time; which one is in the address.
function Recorders({ recorders, address }: JobProps & { recorders: Recorder[] }): JSX.Element | null {
  const chosen = recorders.find((one) => String(one.rank) === address.query["rank"]) ?? recorders[0];
  if (!chosen) return null;
  type Record = Recorder["records"][number];
  const waited = (record: Record): number => (record.state === "submitted" ? record.age_ms : record.started_after_ms);
  const columns: Column<Record & { at: number }>[] = [
    { name: "Collective", of: (record) => <code>{record.name || "not named"}</code> },
    { name: "Operation", of: (record) => record.op },
    { name: "State", of: (record) => <span class={record.state === "submitted" ? "stalled" : ""}>{record.state}</span> },
    { name: "Batch", isNumber: true, of: (record) => (record.batch > 0 ? count(record.batch) : "–") },
    { name: "Bytes", isNumber: true, of: (record) => bytes(record.bytes) },
    { name: "Submitted", isNumber: true, of: (record) => `${duration(record.age_ms)} ago` },
    { name: "Waited", isNumber: true, of: (record) => duration(waited(record)) },
  ];
  const rows = chosen.records.map((record, at) => ({ ...record, at })).reverse();
  return (
    <section aria-labelledby="recorder-title">
      <h3 id="recorder-title">{`The last collectives of rank ${chosen.rank}`}</h3>
      <div class="chips" role="group" aria-label="Ranks that matter">
        {recorders.map((one) => (
          <button key={one.rank} type="button" class="chip" aria-pressed={one === chosen} onClick={() => setQuery(address, { rank: String(one.rank) })}>
            {`rank ${one.rank}${one.is_missing ? ": others wait for it" : ""}`}
          </button>
        ))}
      </div>
      <p class="remark">{`Process ${chosen.pid}; the newest come first.${chosen.unrecorded > 0 ? ` ${count(chosen.unrecorded)} found no room.` : ""}`}</p>
      <Table label="Last collectives" columns={columns} rows={rows} keyOf={(record) => String(record.at)} />
      {chosen.threads.length > 0 && (
        <details class="stack">
          <summary>{`Its ${plural(chosen.threads.length, "thread")}, as the kernel knows them`}</summary>
          <ul>
            {chosen.threads.map((thread, index) => (
              <li key={index}>{`${thread.name}: ${thread.state}${thread.call ? ` in ${thread.call}` : ""}`}</li>
            ))}
          </ul>
        </details>
      )}
    </section>
  );
}
