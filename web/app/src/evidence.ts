// The coordinator's answers about a job that stands still, with the fields of docs/diagnosis.md.

// Some ranks: in words, how many, and the first.
export interface RankGroup {
  text: string;
  count: number;
  first: number;
}

export interface HangWait {
  name: string;
  op: string;
  group: number;
  waited_ms: number;
  waiting: RankGroup;
  missing: RankGroup;
}

// Of compiled code a frame has the name of its program or library; its file is "" where that is not known.
export interface Frame {
  function: string;
  file: string;
  line: number;
  module?: string;
}

export interface StackGroup {
  ranks: RankGroup;
  is_dominant: boolean;
  about: string;
  about_native: string;
  why_no_native: string;
  // Of compiled code: what the innermost of `frames` has called, or all of the stack.
  native_frames: Frame[];
  more_native_frames: number;
  frames: Frame[];
  more_frames: number;
}

export interface Recorder {
  rank: number;
  is_missing: boolean;
  pid: number;
  unrecorded: number;
  threads: { name: string; state: string; call: string }[];
  records: {
    name: string;
    op: string;
    state: string;
    bytes: number;
    group: number;
    batch: number;
    age_ms: number;
    started_after_ms: number;
    ended_after_ms: number;
  }[];
}

// The ranks' answers at the last stall, or when they were asked: each names the ranks that it waits for.
export interface Evidence {
  state: "kept" | "asked";
  at_unix_ms: number;
  epoch: number;
  size: number;
  answered: number;
  stalled_unix_ms: number;
  sentence: string;
  waits: HangWait[];
  stacks: StackGroup[];
  silent: { ranks: RankGroup; why: string }[];
  recorders: Recorder[];
  settings: string[];
}

export type Hang = Evidence | { state: "none" | "gathering" | "gone"; at_unix_ms: number; why: string };
