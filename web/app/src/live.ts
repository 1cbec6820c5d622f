// Brings the coordinator's news to the page: the state of the connection, and events.
import { useEffect, useState } from "preact/hooks";
import { Broker, type Told, type Wish } from "./broker";

export type Connection = { readonly state: "connecting" | "open" | "broken"; readonly since: number };

let connection: Connection = { state: "connecting", since: Date.now() };
const hearers = new Set<(told: Told) => void>();
const watched = new Map<string, number>();
let send: (wish: Wish | "gone") => void = () => undefined;

function hear(told: Told): void {
  if (told.kind === "open") connection = { state: "open", since: Date.now() };
  if (told.kind === "broken") connection = { state: "broken", since: told.since };
  for (const hearer of hearers) hearer(told);
}

// Trusted Types: the worker's address is the one address that may become a script.
function workerAddress(): string {
  const address = document.querySelector<HTMLMetaElement>("meta[name=farandole-live]")?.content ?? "";
  const types = (globalThis as { trustedTypes?: { createPolicy: (name: string, rules: object) => Policy } }).trustedTypes;
  type Policy = { createScriptURL: (text: string) => unknown };
  const policy = types?.createPolicy("farandole", {
    createScriptURL: (text: string) => {
      if (text !== address) throw new TypeError(`${text} is no script of this page`);
      return text;
    },
  });
  return (policy ? policy.createScriptURL(address) : address) as string;
}

export function connect(): void {
  if (typeof SharedWorker === "undefined") {
    const broker = new Broker();
    send = (wish) => (wish === "gone" ? broker.drop(hear) : broker.set(hear, wish));
  } else {
    const { port } = new SharedWorker(workerAddress(), { type: "module", name: "farandole" });
    port.onmessage = (event: MessageEvent<Told>) => hear(event.data);
    send = (wish) => port.postMessage(wish);
  }
  document.addEventListener("visibilitychange", tellWish);
  addEventListener("pagehide", () => send("gone"));
  addEventListener("pageshow", tellWish);
  tellWish();
}

function tellWish(): void {
  send({ watch: document.hidden ? null : [...watched.keys()] });
  // While it was hidden, the page missed what happened.
  if (!document.hidden) hear({ kind: "event", type: "reset", data: {} });
}

// Calls `hearer` with each event for as long as the component is there.
export function useEvents(hearer: (told: Told) => void, needs: readonly unknown[]): void {
  useEffect(() => {
    hearers.add(hearer);
    return () => {
      hearers.delete(hearer);
    };
  }, needs);
}

// The component shows this job ("TENANT/NAME"): it hears once a second that there is more to see.
export function useWatch(job: string): void {
  useEffect(() => {
    watched.set(job, (watched.get(job) ?? 0) + 1);
    send({ watch: document.hidden ? null : [...watched.keys()] });
    return () => {
      const left = (watched.get(job) ?? 1) - 1;
      if (left > 0) watched.set(job, left);
      else watched.delete(job);
      send({ watch: document.hidden ? null : [...watched.keys()] });
    };
  }, [job]);
}

export function useConnection(): Connection {
  const [seen, setSeen] = useState(connection);
  useEvents(() => setSeen(connection), []);
  return seen;
}
