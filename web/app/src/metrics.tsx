// Shows the values that the job's programs have logged: a chart for each name.
import type { JSX } from "preact";
import { askJson, type Curve, type Logged } from "./api";
import { Chart, type Line } from "./chart";
import { count, plural } from "./format";
import type { JobProps } from "./job";
import { useLoad } from "./load";
import { Command, Empty, Show } from "./parts";

// More are in the download; a chart with more lines says nothing.
const MOST_LINES = 8;
const COLOURS = ["--own", "--waited", "--transfer", "--good"] as const;

interface Group {
  name: string;
  curves: Curve[];
}

function grouped(curves: readonly Curve[]): Group[] {
  const groups = new Map<string, Group>();
  for (const curve of curves) {
    const group = groups.get(curve.name) ?? { name: curve.name, curves: [] };
    group.curves.push(curve);
    groups.set(curve.name, group);
  }
  return [...groups.values()];
}

function NameChart({ group }: { group: Group }): JSX.Element {
  const drawn = group.curves.slice(0, MOST_LINES);
  const steps = [...new Set(drawn.flatMap((curve) => curve.last_step))].sort((a, b) => a - b);
  const lines: Line[] = drawn.map((curve, index) => {
    const values = new Map(curve.last_step.map((step, at) => [step, curve.mean[at] ?? null]));
    return {
      name: curve.rank === undefined ? "average" : `rank ${curve.rank}`,
      colour: COLOURS[index % COLOURS.length] ?? COLOURS[0],
      values: steps.map((step) => values.get(step) ?? null),
      isDashed: index >= COLOURS.length,
    };
  });
  const left = group.curves.length - drawn.length;
  return (
    <>
      <Chart title={group.name} unit="" at={steps} lines={lines} isSteps />
      {left > 0 && <p class="remark">{`${count(left)} more ranks are in the download.`}</p>}
    </>
  );
}

export function Metrics({ tenant, name }: JobProps): JSX.Element {
  const path = (format: string): string => `/api/v1/jobs/${encodeURIComponent(name)}/metrics?tenant=${encodeURIComponent(tenant)}&format=${format}`;
  const loaded = useLoad<Logged>(`${tenant}/${name}/metrics`, () => askJson(path("json")), ({ type }) => type === "reset", 5000);
  return (
    <section aria-labelledby="metrics-title">
      <h2 id="metrics-title">What the program logs</h2>
      <Show of={loaded}>
        {(logged) =>
          logged.series.length === 0 ? (
            <Empty title="The program has logged nothing.">
              <p>It logs a number of each step, averaged over ranks, by:</p>
              <Command>{'hvd.log({"loss": loss}, step=step)'}</Command>
            </Empty>
          ) : (
            <>
              <p class="remark">
                {`${plural(logged.series.length, "curve")}. Values of a step are averaged; `}
                <a href={path("csv")}>all points as CSV</a>, <a href={path("json")}>as JSON</a>
              </p>
              {logged.dropped > 0 && <p class="sentence">{`${count(logged.dropped)} values were lost: the programs logged faster than could be sent.`}</p>}
              {logged.refused > 0 && <p class="sentence">{`${logged.bound}; ${count(logged.refused)} values were not kept.`}</p>}
              <div class="charts">
                {grouped(logged.series).map((group) => (
                  <NameChart key={`${group.name}/${group.curves.length}`} group={group} />
                ))}
              </div>
            </>
          )
        }
      </Show>
    </section>
  );
}
