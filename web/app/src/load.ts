// Asks for what a view shows, again whenever the coordinator says that there is more to see.
import { useEffect, useRef, useState } from "preact/hooks";
import { Refusal } from "./api";
import { useEvents } from "./live";

export interface Loaded<T> {
  // The last answer; it stays while the coordinator is away.
  readonly value: T | undefined;
  readonly problem: Refusal | undefined;
}

// Gives the value that a view may show. With status 0 the coordinator is away, and the last answer stays; any other
// problem says that the value is gone.
export function valueOf<T>({ value, problem }: Loaded<T>): T | undefined {
  return problem === undefined || problem.status === 0 ? value : undefined;
}

export interface Trigger {
  readonly type: string;
  readonly data: unknown;
}

// At most so often, whatever happens.
const BETWEEN_MS = 250;
// Without events, and as a net below them.
const POLL_MS = 3000;
const IDLE_POLL_MS = 15000;

// Resolves while the page can be seen: at once, or when it can be seen again.
export function whenVisible(): Promise<void> {
  if (!document.hidden) return Promise.resolve();
  return new Promise((resolve) => {
    const look = (): void => {
      if (document.hidden) return;
      document.removeEventListener("visibilitychange", look);
      resolve();
    };
    document.addEventListener("visibilitychange", look);
  });
}

// `key` names what is asked for: another key begins anew. `isDue` says which events are reasons to ask again; without
// any it is asked every `idleMs`, which may depend on the last answer.
export function useLoad<T>(key: string, ask: () => Promise<T>, isDue: (trigger: Trigger) => boolean, idleMs: number | ((value: T | undefined) => number) = IDLE_POLL_MS): Loaded<T> {
  const [loaded, setLoaded] = useState<{ key: string } & Loaded<T>>({ key, value: undefined, problem: undefined });
  const again = useRef<() => void>(() => undefined);
  const broken = useRef(false);

  useEffect(() => {
    let isOver = false;
    let isAsking = false;
    let isWanted = false;
    let timer: ReturnType<typeof setTimeout> | undefined;
    let last: T | undefined;
    const run = async (): Promise<void> => {
      clearTimeout(timer);
      if (isAsking) {
        isWanted = true;
        return;
      }
      isAsking = true;
      isWanted = false;
      try {
        const value = await ask();
        last = value;
        if (!isOver) setLoaded({ key, value, problem: undefined });
      } catch (problem) {
        if (!(problem instanceof Refusal)) throw problem;
        if (!isOver) setLoaded((before) => ({ key, value: before.key === key ? before.value : undefined, problem }));
        broken.current = problem.status === 0;
      }
      isAsking = false;
      if (isOver) return;
      timer = setTimeout(() => void run(), isWanted ? BETWEEN_MS : broken.current ? POLL_MS : typeof idleMs === "number" ? idleMs : idleMs(last));
    };
    again.current = () => void run();
    void run();
    return () => {
      isOver = true;
      clearTimeout(timer);
    };
  }, [key]);

  useEvents((told) => {
    if (told.kind === "broken" && !broken.current) {
      broken.current = true;
      // The session may have ended: only an answer says so.
      again.current();
    }
    if (told.kind === "open" && broken.current) {
      broken.current = false;
      again.current();
    }
    if (told.kind === "event" && isDue(told)) again.current();
  }, [key]);

  return loaded.key === key ? loaded : { value: undefined, problem: undefined };
}

// Those by which some job has another state, or none any more; its numbers alone are no reason to ask again.
export const hasStates = ({ type, data }: Trigger): boolean =>
  type === "reset" || (type === "jobs" && (data as { jobs: { state?: string }[] }).jobs.some((job) => job.state !== undefined));

// The events about one job.
export function isAbout(tenant: string, job: string): (trigger: Trigger) => boolean {
  return ({ type, data }) => {
    if (type === "reset") return true;
    if (type === "look") {
      const one = data as { tenant: string; job: string };
      return one.tenant === tenant && one.job === job;
    }
    const { jobs } = data as { jobs: { tenant: string; job: string; state?: string }[] };
    return jobs.some((one) => one.tenant === tenant && one.job === job && one.state !== undefined);
  };
}

// Those that say that more than its numbers has changed.
export function hasChanged(tenant: string, job: string): (trigger: Trigger) => boolean {
  const isAboutIt = isAbout(tenant, job);
  return (trigger) => trigger.type !== "look" && isAboutIt(trigger);
}
