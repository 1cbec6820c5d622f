// The coordinator's own health, from its metrics; for root and the cluster's operators.
import type { JSX } from "preact";
import { askText } from "./api";
import { count } from "./format";
import { useLoad } from "./load";
import { Show, Table, type Column } from "./parts";
import { parseMetrics, quantile, sum, type Sample } from "./prometheus";

function seconds(value: number | undefined): string {
  if (value === undefined) return "–";
  if (value === Infinity) return "more than the last bucket";
  return value < 1 ? `≤ ${Number((value * 1000).toPrecision(3))} ms` : `≤ ${value} s`;
}

interface Sum {
  readonly name: string;
  readonly labels: string;
  readonly value: number;
}

export function CoordinatorPage(): JSX.Element {
  const loaded = useLoad<string>("metrics", () => askText("/metrics"), () => true);
  return (
    <>
      <h1 tabIndex={-1}>Coordinator</h1>
      <Show of={loaded}>{(text) => <Health samples={parseMetrics(text)} />}</Show>
    </>
  );
}

function Health({ samples }: { samples: Sample[] }): JSX.Element {
  const jobs = (state: string): number =>
    samples.filter((one) => one.name === "farandole_jobs" && one.labels["state"] === state).reduce((total, one) => total + one.value, 0);
  const build = samples.find((one) => one.name === "farandole_build_info");
  const bad = ["farandole_store_errors_total", "farandole_mailbox_refusals_total", "farandole_denied_calls_total", "farandole_refused_connections_total"];
  const tiles: [string, string][] = [
    ["version", build?.labels["version"] ?? "–"],
    ["jobs running", count(jobs("running"))],
    ["jobs forming", count(jobs("forming"))],
    ["workers", count(sum(samples, "farandole_workers"))],
    ["streams", count(sum(samples, "farandole_streams"))],
    ["events waiting", count(sum(samples, "farandole_mailbox_events"))],
    ["99 % of decisions in", seconds(quantile(samples, "farandole_step_seconds", 0.99))],
    ["99 % of commits in", seconds(quantile(samples, "farandole_commit_seconds", 0.99))],
    ["epochs formed", count(sum(samples, "farandole_epochs_formed_total"))],
    ["epochs lost", count(sum(samples, "farandole_resets_total"))],
    ["stalls told", count(sum(samples, "farandole_stall_notices_total"))],
  ];
  const rows: Sum[] = samples
    .filter((one) => !one.name.endsWith("_bucket") && one.name.startsWith("farandole_"))
    .map((one) => ({ name: one.name, labels: Object.entries(one.labels).map(([key, value]) => `${key}=${value}`).join(", "), value: one.value }));
  const columns: Column<Sum>[] = [
    { name: "Metric", of: (row) => <code>{row.name}</code> },
    { name: "Of", of: (row) => row.labels },
    { name: "Value", isNumber: true, of: (row) => count(Math.round(row.value * 1e6) / 1e6) },
  ];
  return (
    <>
      <dl class="tiles">
        {tiles.map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ))}
        {bad.map((name) => {
          const value = sum(samples, name);
          return (
            <div key={name} class={value > 0 ? "warn" : ""}>
              <dt>{name.replace(/^farandole_|_total$/g, "").replaceAll("_", " ")}</dt>
              <dd>{count(value)}</dd>
            </div>
          );
        })}
      </dl>
      <h2>All metrics</h2>
      <Table label="Metrics" columns={columns} rows={rows} keyOf={(row) => `${row.name}{${row.labels}}`} />
    </>
  );
}
