// Charts of a job, a host or a rank over time, in the range that the address names.
import type { JSX } from "preact";
import { setQuery, type Address } from "./address";
import { askJson, viewOf, type Charted, type NetworkHistory, type RankHistory, type SectionTime } from "./api";
import { Chart, type Line } from "./chart";
import { milliseconds } from "./format";
import type { JobProps } from "./job";
import { hasChanged, useLoad } from "./load";
import { Show } from "./parts";

// As server/edge/routes/history_query.cc has them.
const RANGES = [
  { name: "10m", title: "10 min" },
  { name: "1h", title: "1 h" },
  { name: "6h", title: "6 h" },
  { name: "3d", title: "3 days" },
  { name: "30d", title: "30 days" },
  { name: "all", title: "All" },
] as const;
const DEFAULT = "1h";
// Points of short ranges are of ten seconds, those of the others of a minute or longer.
const SHORT_MS = 10_000;
const LONG_MS = 60_000;

function Ranges({ address, range }: { address: Address; range: string }): JSX.Element {
  return (
    <div class="chips" role="group" aria-label="Time range">
      {RANGES.map(({ name, title }) => (
        <button key={name} type="button" class="chip" aria-pressed={name === range} onClick={() => setQuery(address, { range: name === DEFAULT ? "" : name })}>
          {title}
        </button>
      ))}
    </div>
  );
}

type Subject = { readonly rank: string } | { readonly host: string };

interface ChartsProps extends JobProps {
  // A rank, "all" for the job in all; or a host's id.
  readonly of: Subject;
}

export function Charts({ tenant, name, address, of }: ChartsProps): JSX.Element {
  const range = address.query["range"] ?? DEFAULT;
  const loaded = useLoad<Charted>(
    `${tenant}/${name}/charts/${JSON.stringify(of)}/${range}`,
    () => askJson(viewOf(tenant, name, "charts", { ...of, range })),
    hasChanged(tenant, name),
    range === "10m" || range === "1h" ? SHORT_MS : LONG_MS,
  );
  const isOne = "rank" in of && of.rank !== "all";
  return (
    <>
      <Ranges address={address} range={range} />
      <Show of={loaded}>
        {({ rank_history: history, network_history: network }) => (
          <>
            {history.at_unix_ms.length > 1 ? (
              <div class="charts">
                <Plots history={history} isOne={isOne} />
                {network && network.at_unix_ms.length > 1 && <Traffic of={network} />}
              </div>
            ) : (
              <p class="remark">Nothing was measured in this time. Charts begin after twenty seconds of measuring.</p>
            )}
            {history.sections.length > 0 && <Sections of={history.sections} />}
          </>
        )}
      </Show>
    </>
  );
}

// Negative: not known.
const asPercent = (thousandths: readonly number[]): (number | null)[] => thousandths.map((value) => (value < 0 ? null : value / 10));

function Plots({ history, isOne }: { history: RankHistory; isOne: boolean }): JSX.Element {
  const at = history.at_unix_ms;
  const shares: Line[] = [
    { name: isOne ? "waiting for ranks" : "waiting for ranks, mean", colour: "--waited", values: asPercent(history.waited) },
    { name: isOne ? "its worst half second" : "the rank that waits most", colour: "--waited", values: asPercent(history.most_waited), isDashed: true },
    { name: isOne ? "collectives" : "collectives, mean", colour: "--transfer", values: asPercent(history.transfer) },
  ];
  const cpu = isOne ? "CPU (100 % is a core)" : "CPU of a rank, mean (100 % is a core)";
  return (
    <>
      <Chart title="Share of the time" unit=" %" most={100} at={at} lines={shares} />
      <Chart title={cpu} unit=" %" at={at} lines={[{ name: "CPU", colour: "--own", values: asPercent(history.cpu) }]} />
      <Chart title="Steps a second" unit="" at={at} lines={[{ name: "steps", colour: "--own", values: history.steps.map((value) => value / 10) }]} />
      {history.gpu && history.gpu_memory && <GpuUse at={at} gpu={history.gpu} memory={history.gpu_memory} />}
    </>
  );
}

function GpuUse({ at, gpu, memory }: { at: readonly number[]; gpu: readonly number[]; memory: readonly number[] }): JSX.Element {
  const lines: Line[] = [
    { name: "busy", colour: "--own", values: asPercent(gpu) },
    { name: "memory in use", colour: "--transfer", values: asPercent(memory), isDashed: true },
  ];
  return <Chart title="GPU" unit=" %" most={100} at={at} lines={lines} />;
}

const MIB = 2 ** 20;
const asMib = (bytes: readonly number[]): number[] => bytes.map((value) => value / MIB);

function Traffic({ of }: { of: NetworkHistory }): JSX.Element {
  const lines: Line[] = [
    { name: "received", colour: "--waited", values: asMib(of.received_bytes) },
    { name: "sent", colour: "--transfer", values: asMib(of.sent_bytes) },
  ];
  return (
    <>
      <Chart title="Network, MiB a second" unit="" at={of.at_unix_ms} lines={lines} />
      <Chart title="Retransmits a second" unit="" at={of.at_unix_ms} lines={[{ name: "retransmits", colour: "--waited", values: of.retransmits.map((value) => value / 10) }]} />
    </>
  );
}

function Sections({ of }: { of: readonly SectionTime[] }): JSX.Element {
  return (
    <>
      <h3>Sections of its program</h3>
      <dl class="tiles">
        {of.map((one) => (
          <div key={one.name}>
            <dt>{one.name}</dt>
            <dd>{`${milliseconds(one.seconds_a_step)} a step, median ${milliseconds(one.median_seconds_a_step)}`}</dd>
          </div>
        ))}
      </dl>
    </>
  );
}
