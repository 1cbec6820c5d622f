// Reads Prometheus' text format, as /metrics has it.

export interface Sample {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

export function parseMetrics(text: string): Sample[] {
  const samples: Sample[] = [];
  for (const line of text.split("\n")) {
    const found = /^(\w+)(?:\{(.*)\})? (\S+)$/.exec(line);
    if (!found) continue;
    const [, name = "", labels = "", value = ""] = found;
    const pairs = [...labels.matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)].map(([, key = "", text = ""]) => [key, text] as const);
    samples.push({ name, labels: Object.fromEntries(pairs), value: Number(value) });
  }
  return samples;
}

export const sum = (samples: readonly Sample[], name: string): number =>
  samples.filter((one) => one.name === name).reduce((total, one) => total + one.value, 0);

// The upper bound of the bucket in which a share of the observations ends, in seconds; undefined without any.
export function quantile(samples: readonly Sample[], name: string, share: number): number | undefined {
  const buckets = samples.filter((one) => one.name === `${name}_bucket`);
  const all = sum(samples, `${name}_count`);
  if (all === 0) return undefined;
  return buckets.map((one) => ({ bound: Number(one.labels["le"]?.replace("+Inf", "Infinity")), value: one.value })).find((one) => one.value >= share * all)?.bound;
}
