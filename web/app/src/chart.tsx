// A chart of columns over time, by uPlot.
import type { JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";

export interface Line {
  readonly name: string;
  // A variable of the style.
  readonly colour: string;
  readonly values: readonly number[];
  readonly isDashed?: boolean;
}

interface ChartProps {
  readonly title: string;
  readonly unit: string;
  // Unix milliseconds.
  readonly times: readonly number[];
  readonly lines: readonly Line[];
  readonly most?: number;
}

const HEIGHT = 180;
const styleOf = (name: string): string => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

export function Chart({ title, unit, times, lines, most }: ChartProps): JSX.Element {
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const data = (): uPlot.AlignedData => [times.map((time) => time / 1000), ...lines.map((line) => [...line.values])];
  useEffect(() => {
    const place = box.current;
    if (!place) return undefined;
    const make = (): void => {
      plot.current?.destroy();
      const axis = { stroke: styleOf("--faint"), grid: { stroke: styleOf("--line") }, ticks: { stroke: styleOf("--line") } };
      plot.current = new uPlot(
        {
          width: place.clientWidth,
          height: HEIGHT,
          legend: { show: false },
          cursor: { show: true, points: { show: false } },
          scales: { y: { range: (_, __, greatest) => [0, most ?? Math.max(1, greatest * 1.1)] } },
          axes: [axis, { ...axis, size: 56, values: (_, ticks) => ticks.map((tick) => `${tick}${unit}`) }],
          series: [{}, ...lines.map((line) => ({ label: line.name, stroke: styleOf(line.colour), width: 2, points: { show: false }, ...(line.isDashed ? { dash: [4, 4] } : {}) }))],
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
  }, []);
  useEffect(() => plot.current?.setData(data()), [times, lines]);
  const latest = lines.map((line) => `${line.name} ${line.values.at(-1) ?? "–"}${unit}`).join(", ");
  return (
    <figure class="chart">
      <figcaption>
        {title}
        <span class="legend">
          {lines.map((line) => (
            <span key={line.name}>
              <span class={`swatch ${line.colour.replace("--", "")}`} aria-hidden="true" /> {line.name}
            </span>
          ))}
        </span>
      </figcaption>
      <div ref={box} role="img" aria-label={`${title}; now ${latest}`} />
    </figure>
  );
}
