// A chart of columns over time or steps, by uPlot. Its values are read by the mouse, and by arrow keys.
import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import uPlot from "uplot";

export interface Line {
  readonly name: string;
  // A variable of the style.
  readonly colour: string;
  // Null: there is none.
  readonly values: readonly (number | null)[];
  readonly isDashed?: boolean;
}

interface ChartProps {
  readonly title: string;
  readonly unit: string;
  // Unix milliseconds; or steps, where `isSteps` says so, which need not begin at 0, and whose values may be negative.
  readonly at: readonly number[];
  readonly lines: readonly Line[];
  readonly most?: number;
  readonly isSteps?: boolean;
}

const HEIGHT = 180;
const DAY_MS = 24 * 3_600_000;
const styleOf = (name: string): string => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const shown = (value: number | null | undefined): string => (value === null || value === undefined ? "–" : `${Number(value.toPrecision(6))}`);

export function Chart({ title, unit, at, lines, most, isSteps = false }: ChartProps): JSX.Element {
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const [read, setRead] = useState<number | null>(null);
  const latest = useRef({ at, lines });
  latest.current = { at, lines };
  const data = (): uPlot.AlignedData => [latest.current.at.map((x) => (isSteps ? x : x / 1000)), ...latest.current.lines.map((line) => [...line.values])];
  useEffect(() => {
    const place = box.current;
    if (!place) return undefined;
    const make = (): void => {
      plot.current?.destroy();
      const axis = { stroke: styleOf("--faint"), grid: { stroke: styleOf("--line") }, ticks: { stroke: styleOf("--line") } };
      const fromZero = { range: (_: uPlot, __: number, greatest: number): [number, number] => [0, most ?? Math.max(1, greatest * 1.1)] };
      plot.current = new uPlot(
        {
          width: place.clientWidth,
          height: HEIGHT,
          legend: { show: false },
          cursor: { show: true, points: { show: false } },
          scales: isSteps ? { x: { time: false } } : { y: fromZero },
          axes: [axis, { ...axis, size: 56, values: (_, ticks) => ticks.map((tick) => `${tick}${unit}`) }],
          series: [{}, ...latest.current.lines.map((line) => ({ label: line.name, stroke: styleOf(line.colour), width: 2, spanGaps: true, points: { show: false }, ...(line.isDashed ? { dash: [4, 4] } : {}) }))],
          hooks: { setCursor: [(self) => setRead(self.cursor.idx ?? null)] },
        },
        data(),
        place,
      );
    };
    make();
    const measure = new ResizeObserver(() => plot.current?.setSize({ width: place.clientWidth, height: HEIGHT }));
    measure.observe(place);
    const scheme = matchMedia("(prefers-color-scheme: dark)");
    scheme.addEventListener("change", make);
    addEventListener("themechange", make);
    return () => {
      measure.disconnect();
      scheme.removeEventListener("change", make);
      removeEventListener("themechange", make);
      plot.current?.destroy();
      plot.current = null;
    };
  }, [lines.map((line) => line.name).join("\n")]);
  useEffect(() => plot.current?.setData(data()), [at, lines]);

  const isLong = (at.at(-1) ?? 0) - (at[0] ?? 0) > DAY_MS / 2;
  const clock = (time: Date): string => (isLong ? time.toLocaleString() : time.toLocaleTimeString());
  const place = (index: number): string => (isSteps ? `step ${at[index]}` : clock(new Date(at[index] ?? 0)));
  const valuesAt = (index: number): string => lines.map((line) => `${line.name} ${shown(line.values.at(index))}${unit}`).join(", ");
  const onKey = (event: KeyboardEvent): void => {
    const last = at.length - 1;
    const moves: Record<string, number> = { ArrowLeft: (read ?? last + 1) - 1, ArrowRight: (read ?? -1) + 1, Home: 0, End: last };
    const wanted = moves[event.key];
    const self = plot.current;
    if (wanted === undefined || !self || last < 0) return;
    event.preventDefault();
    const index = Math.min(last, Math.max(0, wanted));
    self.setCursor({ left: self.valToPos(self.data[0][index] ?? 0, "x"), top: HEIGHT / 4 });
    setRead(index);
  };
  return (
    <figure class="chart">
      <figcaption>
        {title}
        <span class="legend">
          {lines.map((line) => (
            <span key={line.name}>
              <span class={`swatch ${line.colour.replace("--", "")}${line.isDashed ? " dashed" : ""}`} aria-hidden="true" /> {line.name}
            </span>
          ))}
        </span>
      </figcaption>
      <div ref={box} class="plot" role="slider" tabIndex={0} onKeyDown={onKey} onBlur={() => setRead(null)}
        aria-label={title} aria-valuemin={0} aria-valuemax={Math.max(0, at.length - 1)} aria-valuenow={read ?? Math.max(0, at.length - 1)}
        aria-valuetext={read !== null && read < at.length ? `${place(read)}: ${valuesAt(read)}` : `now ${valuesAt(-1)}`} />
      <p class="remark reading">{read !== null && read < at.length ? `${place(read)}: ${valuesAt(read)}` : " "}</p>
    </figure>
  );
}
