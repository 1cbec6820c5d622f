// Numbers and times as people read them.

// Why a worker was lost, or a job has failed: something is said of each.
export const why = (reason: string): string => reason.trim() || "the connection broke; the coordinator was told no reason";

// Of a worker's state; "" where it was not lost.
export const lossOf = (state: string): string => (/^lost\b/.test(state) ? why(state.replace(/^lost:?/, "")) : "");

export const percent = (value: number | undefined): string => (value === undefined ? "–" : `${Math.round(value)} %`);

export function duration(ms: number): string {
  const seconds = Math.max(0, ms) / 1000;
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  if (seconds < 120) return `${Math.round(seconds)} s`;
  if (seconds < 7200) return `${Math.floor(seconds / 60)} min`;
  return seconds < 172800 ? `${Math.floor(seconds / 3600)} h` : `${Math.floor(seconds / 86400)} d`;
}

// Of times from microseconds to days.
export function span(ms: number): string {
  if (ms < 1) return `${Math.round(1000 * ms)} µs`;
  return ms < 1000 ? `${ms.toFixed(ms < 10 ? 1 : 0)} ms` : duration(ms);
}

export const milliseconds = (seconds: number): string => `${(1000 * seconds).toFixed(seconds < 0.01 ? 1 : 0)} ms`;

export const ago = (unixMs: number, nowMs: number): string => `${duration(Math.floor((nowMs - unixMs) / 1000) * 1000).replace(".0", "")} ago`;

export const clock = (unixMs: number): string => new Date(unixMs).toLocaleString();

export function bytes(count: number): string {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let value = count;
  let unit = 0;
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${unit === 0 || value >= 100 ? Math.round(value) : value.toFixed(1)} ${units[unit]}`;
}

export const count = (value: number): string => value.toLocaleString("en-US").replaceAll(",", "\u202f");

export const plural = (value: number, noun: string): string => `${count(value)} ${noun}${value === 1 ? "" : "s"}`;
