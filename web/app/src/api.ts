// The coordinator's answers, with the fields of docs/operations.md and docs/diagnosis.md.

export type JobState = "queued" | "forming" | "running" | "finished" | "failed" | "unknown";

export interface Gpus {
  gpus?: number;
  name?: string;
  busy_percent?: number;
  memory_used_bytes: number;
  memory_total_bytes: number;
}

export interface Summary {
  tenant: string;
  job: string;
  state: JobState;
  reason: string;
  epoch: number;
  size: number;
  wanted_size: number;
  created_unix_ms: number;
  batches_per_second: number;
  // null: not measured, or not yet.
  steps_per_second: number | null;
  last_stall: string;
  last_stall_unix_ms: number;
  blocker: string;
  // Of a queued job.
  queue?: { position: number; length: number; reason: string };
  gpus?: Gpus;
  min_size?: number;
  max_size?: number;
  waiting?: number;
  resets?: number;
}

export interface JobList {
  now_unix_ms: number;
  is_admin: boolean;
  /** Why the coordinator can make nothing durable now, and since when; "": all is well. */
  store_trouble: string;
  listed: number;
  found: number;
  states: Partial<Record<JobState, number>>;
  jobs: Summary[];
}

// Of the caller's token.
export interface Rights {
  who: string;
  tenant: string;
  role: string;
  sees_all_tenants: boolean;
  // A launcher's token: those that were launched with it.
  may_end_jobs: boolean;
  may_manage_tokens: boolean;
  may_manage_tenants: boolean;
  may_read_audit: boolean;
  may_see_metrics: boolean;
}

export interface Queue {
  now_unix_ms: number;
  found: number;
  queue: {
    tenant: string;
    job: string;
    // Those that wait for the same room: a cohort, or a tenant of none.
    pool: string;
    position: number;
    length: number;
    workers: number;
    since_unix_ms: number;
    reason: string;
  }[];
}

export interface Tenants {
  now_unix_ms: number;
  found: number;
  tenants: {
    tenant: string;
    jobs: number;
    max_jobs: number;
    workers: number;
    max_workers: number;
    store_bytes: number;
    max_store_bytes: number;
    cohort: string;
    weight: number;
    borrow: number;
    queued_jobs: number;
    queued_workers: number;
    tokens: number;
    created_unix_ms: number;
  }[];
}

export interface Tokens {
  now_unix_ms: number;
  found: number;
  tokens: {
    id: string;
    tenant: string;
    role: string;
    label: string;
    created_unix_ms: number;
    // 0: it does not expire.
    expires_unix_ms: number;
    // 0: never.
    last_used_unix_ms: number;
    made_with: string;
    // Set while the secret before the last rotation is good.
    overlap_ends_unix_ms: number;
    is_start_token: boolean;
    // Why it is not good any more; "": it is.
    ended: string;
  }[];
}

export interface AuditLine {
  time: string;
  // For root only.
  seq?: number;
  // Of a denial a text.
  principal?: string | { kind: string; id: string; tenant: string; role?: string; job?: string; subject?: string; spiffe?: string };
  peer?: string;
  method?: string;
  target?: string;
  outcome?: string;
  reason?: string;
  // So many others like it.
  count?: number;
}

export interface Audit {
  now_unix_ms: number;
  is_kept: boolean;
  // Before which the next part begins; "": it is the last one.
  next: string;
  lines: AuditLine[];
}

export interface Measured {
  seconds: number;
  steps: number;
  own_percent: number;
  waited_percent: number;
  transfer_percent: number;
  cpu_percent?: number;
  last_steps?: number;
  alone_seconds?: number;
  // The least own time in a step that any rank has, over this rank's; and its own least time over that now. 0: not known.
  score?: number;
  own_score?: number;
}

// Of all ranks on average.
export interface Means extends Measured {
  // The time over what it would be if no rank waited for another; 0: not known.
  slowdown: number;
}

export interface Blocker {
  cause: string;
  rank?: number;
  host?: string;
  lost_seconds_a_minute: number;
  percent: number;
  own_ratio: number;
  last_steps: number;
  steps: number;
  since_unix_ms: number;
  sentence: string;
}

export interface Diagnosis {
  at_unix_ms: number;
  now: Means;
  blockers: Blocker[];
  total: Means;
  worst?: Blocker;
}

export interface Worker {
  rank: number;
  hostname: string;
  host_id: string;
  pid: number;
  incarnation: string;
  state: string;
  silence_ms: number;
  batches: number;
  measured?: Measured;
  last_submitted?: string;
  waiting_ms?: number;
  running?: string;
  running_ms?: number;
  gpu?: Gpus;
}

export interface Job extends Summary {
  at_unix_ms: number;
  negotiation_messages: number;
  diagnosis: Diagnosis;
  states: Record<string, number>;
  lost: Worker[];
  workers: number;
  hosts: number;
  barred_hosts: { hostname: string; failures: number; barred_ms: number }[];
  // The last request that its program writes one.
  wanted_checkpoint?: WantedCheckpoint;
  history: { at_unix_ms: number; sentence: string }[];
}

export interface WantedCheckpoint {
  serial: number;
  state: "pending" | "written" | "failed";
  asker: string;
  since_unix_ms: number;
  times: number;
  // When the program was told; 0: it has not asked since.
  told_unix_ms: number;
  over_unix_ms: number;
  checkpoint?: { name: string; step: number; path: string };
  failure?: string;
}

export interface Workers {
  at_unix_ms: number;
  found: number;
  workers: Worker[];
}

export interface RankHistory {
  at_unix_ms: number[];
  waited: number[];
  most_waited: number[];
  transfer: number[];
  most_transfer: number[];
  cpu: number[];
  steps: number[];
  // Where a GPU has told of itself, in thousandths; -1 where it did not tell.
  gpu?: number[];
  gpu_memory?: number[];
  sections: SectionTime[];
}

export interface SectionTime {
  name: string;
  seconds_a_step: number;
  median_seconds_a_step: number;
}

export interface Rank {
  at_unix_ms: number;
  worker: Worker;
}

// By column, a second; retransmits in ten seconds.
export interface NetworkHistory {
  at_unix_ms: number[];
  received_bytes: number[];
  sent_bytes: number[];
  retransmits: number[];
}

// Of a rank, of a host's ranks, or of the job in all; the latter two with their network.
export interface Charted {
  at_unix_ms: number;
  rank_history: RankHistory;
  network_history?: NetworkHistory;
}

export interface Host {
  host_id: string;
  hostname: string;
  ranks: number;
  first_rank: number;
  last_rank: number;
  live: number;
  lost: number;
  own_percent?: number;
  waited_percent?: number;
  transfer_percent?: number;
  cpu_percent?: number;
  received_bytes_per_second?: number;
  sent_bytes_per_second?: number;
  retransmits_per_second?: number;
  retransmits?: number;
}

export interface Hosts {
  at_unix_ms: number;
  found: number;
  hosts: Host[];
}

// The cost of a tensor; its times are means of a rank and a collective, unless they say otherwise.
export interface CollectiveCost {
  name: string;
  op: string;
  group: number;
  is_on_gpu: boolean;
  count: number;
  bytes: number;
  // Of all ranks together.
  waited_ms: number;
  moving_ms: number;
  wait_percent: number;
  mean_wait_ms: number;
  longest_wait_ms: number;
  longest_wait_rank: number;
  mean_moving_ms: number;
  // 0: not known.
  algorithm_bytes_per_second: number;
  bus_bytes_per_second: number;
  // Of the latest collectives, those that were compared, and the ranks that came last, the most frequent first.
  compared: number;
  last: { rank: number; times: number }[];
  least_wait_rank: number;
  least_wait_ms: number;
}

export type CollectiveSurvey =
  | {
      state: "asked" | "kept";
      at_unix_ms: number;
      epoch: number;
      size: number;
      answered: number;
      // 0: the ranks were not asked; it was read when they ended.
      asked_unix_ms: number;
      found: number;
      left_out: number;
      waited_ms: number;
      moving_ms: number;
      collectives: CollectiveCost[];
      silent: { ranks: string; why: string }[];
    }
  | { state: "none"; at_unix_ms: number; why: string };

export interface Collectives {
  at_unix_ms: number;
  found: number;
  measured: number;
  collectives: {
    name: string;
    submitted: number;
    waiting: number;
    running: number;
    longest_wait_ms: number;
    first_rank: number;
  }[];
}

export interface Checkpoints {
  at_unix_ms: number;
  found: number;
  checkpoints: {
    name: string;
    step: number;
    token: number;
    size_bytes: number;
    sha256: string;
    committed_unix_ms: number;
    epoch: number;
    path: string;
  }[];
}

// One curve that the programs have logged; columns, a null is not finite.
export interface Curve {
  name: string;
  rank?: number;
  first_step: number[];
  last_step: number[];
  mean: (number | null)[];
}

export interface Logged {
  series: Curve[];
  dropped: number;
  refused: number;
  bound: string;
}

export interface Timeline {
  at_unix_ms: number;
  // Its number; 0: none was recorded.
  recording: number;
  is_on: boolean;
  started_unix_ms: number;
  dropped: number;
  forgotten: number;
  // Whether the caller's token may start and stop one.
  may_record: boolean;
}

// Why there is no answer. Status 0: the coordinator was not reached.
export class Refusal extends Error {
  constructor(
    readonly status: number,
    sentence: string,
  ) {
    super(sentence);
  }
}

// How often a question is asked again that was refused for want of room, and after how long where the refusal does not say.
const MOST_RETRIES = 3;
const RETRY_S = 1;

// Pages that were refused at the same moment do not come back at the same moment.
function pauseAfter(refused: Response): Promise<void> {
  const seconds = Number(refused.headers.get("Retry-After")) || RETRY_S;
  return new Promise((resolve) => setTimeout(resolve, 1000 * seconds * (0.5 + Math.random())));
}

// The sentence of a refusal; undefined: it is none of the coordinator's.
function errorOf(body: string): string | undefined {
  try {
    return (JSON.parse(body) as { error?: string }).error;
  } catch {
    return undefined;
  }
}

// 429: the tenant's callers ask for too much at a time. A change is not asked for again; a question to the ranks, which is
// a POST, is.
async function ask(path: string, more: RequestInit = {}): Promise<Response> {
  for (let retries = 0; ; ++retries) {
    let response: Response;
    try {
      response = await fetch(path, { credentials: "same-origin", cache: "no-store", ...more });
    } catch {
      throw new Refusal(0, "The coordinator does not answer.");
    }
    if (response.ok) return response;
    const changes = more.method !== undefined && !path.includes("/stacks?");
    if (response.status === 429 && !changes && retries < MOST_RETRIES) {
      await pauseAfter(response);
      continue;
    }
    if (response.status === 401) location.assign(`/login${location.hash}`);
    throw new Refusal(response.status, errorOf(await response.text().catch(() => "")) ?? `The coordinator answered ${response.status}.`);
  }
}

export const askJson = async <T>(path: string): Promise<T> => JSON.parse(await (await ask(path)).text()) as T;
export const askText = async (path: string): Promise<string> => (await ask(path)).text();
export const askBytes = async (path: string): Promise<Uint8Array> => new Uint8Array(await (await ask(path)).arrayBuffer());

// The address of what belongs to a job: "abort", "hang/archive".
export function pathOf(tenant: string, job: string, what: string, query: Record<string, string> = {}): string {
  return `/api/v1/jobs/${encodeURIComponent(job)}/${what}?${new URLSearchParams({ tenant, ...query })}`;
}

// Changes or asks something of a job; the caller's token must allow it.
export async function act<T>(tenant: string, job: string, what: string, query: Record<string, string> = {}, body = ""): Promise<T> {
  return JSON.parse(await (await ask(pathOf(tenant, job, what, query), { method: "POST", body })).text()) as T;
}

// The address of a part of a job.
export function viewOf(tenant: string, job: string, view: string, query: Record<string, string | number> = {}): string {
  const fields = Object.entries({ tenant, view, ...query }).map(([key, value]) => `${key}=${encodeURIComponent(value)}`);
  return `/api/v1/jobs/${encodeURIComponent(job)}?${fields.join("&")}`;
}
