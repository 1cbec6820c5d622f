// All ranks at a glance, and below them the table of those that the others wait for.
import type { JSX } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { setQuery, showPart } from "./address";
import { askBytes, askJson, viewOf, type Job, type Worker, type Workers } from "./api";
import { bytes as showBytes, count, duration, lossOf, percent } from "./format";
import { layOut, ownOf, paint, rangeOf, stateOf, STATE_NAMES, type Colours } from "./grid";
import type { JobProps } from "./job";
import { isAbout, useLoad } from "./load";
import { Command, Empty, Pager, Show, State, Table, type Column } from "./parts";

const WORST = 32;
const PAGE = 100;

export function Ranks({ tenant, name, address, job }: JobProps & { job: Job }): JSX.Element {
  const loaded = useLoad<Uint8Array>(
    `${tenant}/${name}/bytes`,
    () => askBytes(viewOf(tenant, name, "ranks")),
    isAbout(tenant, name),
  );
  const blamed = new Set(job.diagnosis.blockers.flatMap((one) => (one.rank === undefined ? [] : [one.rank])));
  return (
    <section aria-labelledby="ranks-title">
      <h2 id="ranks-title">Ranks</h2>
      <Show of={loaded}>
        {(bytes) =>
          bytes.length === 0 ? (
            <Empty title="No rank yet.">
              <p>{job.reason}</p>
              <p>Ranks are given when all of its workers have joined. In a terminal, this says who is awaited:</p>
              <Command>{`farandole job show ${name}`}</Command>
            </Empty>
          ) : (
            <>
              <Grid tenant={tenant} name={name} bytes={bytes} blamed={blamed} />
              <WorkerTable tenant={tenant} name={name} address={address} />
            </>
          )
        }
      </Show>
    </section>
  );
}

// A variable of the style, "#rrggbb".
function colour(name: string): readonly [number, number, number] {
  const text = getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const number = Number.parseInt(text.slice(1), 16);
  return [(number >> 16) & 255, (number >> 8) & 255, number & 255];
}

const coloursNow = (): Colours => ({
  low: colour("--heat-low"),
  high: colour("--heat-high"),
  unknown: colour("--heat-unknown"),
  gone: colour("--heat-gone"),
  lost: colour("--heat-lost"),
  draining: colour("--heat-draining"),
  mark: getComputedStyle(document.documentElement).getPropertyValue("--ink").trim(),
  paper: getComputedStyle(document.documentElement).getPropertyValue("--paper").trim(),
});

function describe(rank: number, byte: number, isBlamed: boolean): string {
  const own = ownOf(byte);
  const share = own === undefined ? "not measured" : `${Math.round(own * 100)} % own time`;
  return `Rank ${rank}: ${STATE_NAMES[stateOf(byte)] ?? ""}, ${share}${isBlamed ? ", the others wait for it" : ""}`;
}

interface GridProps {
  readonly tenant: string;
  readonly name: string;
  readonly bytes: Uint8Array;
  readonly blamed: ReadonlySet<number>;
}

function Grid({ tenant, name, bytes, blamed }: GridProps): JSX.Element {
  const box = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const [width, setWidth] = useState(0);
  const [focused, setFocused] = useState<number | undefined>(undefined);
  const [pointed, setPointed] = useState<number | undefined>(undefined);
  const [theme, setTheme] = useState(0);
  useLayoutEffect(() => {
    const measure = new ResizeObserver(() => setWidth(box.current?.clientWidth ?? 0));
    if (box.current) measure.observe(box.current);
    setWidth(box.current?.clientWidth ?? 0);
    const changed = (): void => setTheme((before) => before + 1);
    const scheme = matchMedia("(prefers-color-scheme: dark)");
    scheme.addEventListener("change", changed);
    addEventListener("themechange", changed);
    return () => {
      measure.disconnect();
      scheme.removeEventListener("change", changed);
      removeEventListener("themechange", changed);
    };
  }, []);
  const layout = layOut(bytes.length, width);
  useEffect(() => {
    if (canvas.current && width > 0)
      paint({ canvas: canvas.current, bytes, layout, colours: coloursNow(), marked: blamed, focused: focused ?? pointed });
  }, [bytes, width, focused, pointed, theme, [...blamed].join()]);

  const go = (rank: number): void => {
    location.hash = showPart(tenant, name, "rank", rank);
  };
  const rankAt = (event: MouseEvent): number | undefined => {
    const rank = Math.floor(event.offsetY / layout.cell) * layout.columns + Math.floor(event.offsetX / layout.cell);
    return rank >= 0 && rank < bytes.length ? rank : undefined;
  };
  const onKey = (event: KeyboardEvent): void => {
    const at = focused ?? 0;
    const steps: Record<string, number> = {
      ArrowRight: at + 1, ArrowLeft: at - 1, ArrowDown: at + layout.columns, ArrowUp: at - layout.columns,
      Home: at - (at % layout.columns), End: at - (at % layout.columns) + layout.columns - 1,
      PageDown: bytes.length - 1, PageUp: 0,
    };
    const next = steps[event.key];
    if (event.key === "Enter") go(at);
    else if (next === undefined) return;
    else setFocused(Math.max(0, Math.min(bytes.length - 1, next)));
    event.preventDefault();
  };
  const range = rangeOf(bytes);
  const shown = focused ?? pointed;
  const row = shown === undefined ? 0 : Math.floor(shown / Math.max(1, layout.columns));
  const words = shown === undefined ? "" : describe(shown, bytes[shown] ?? 31, blamed.has(shown));
  return (
    <div class="grid" ref={box}>
      <div
        role="grid"
        class="cells"
        tabIndex={0}
        aria-label={`${count(bytes.length)} ranks by their own time; arrow keys move, Enter opens a rank`}
        aria-rowcount={layout.rows}
        aria-colcount={layout.columns}
        aria-activedescendant={shown === undefined ? undefined : "cell"}
        onKeyDown={onKey}
        onFocus={() => setFocused((before) => before ?? [...blamed][0] ?? 0)}
        onBlur={() => setFocused(undefined)}
      >
        <canvas
          ref={canvas}
          aria-hidden="true"
          style={{ width: `${layout.columns * layout.cell}px`, height: `${layout.rows * layout.cell}px` }}
          onMouseMove={(event) => setPointed(rankAt(event))}
          onMouseLeave={() => setPointed(undefined)}
          onClick={(event) => {
            const rank = rankAt(event);
            if (rank !== undefined) go(rank);
          }}
        />
        <div role="row" class="unseen" aria-rowindex={row + 1}>
          <div role="gridcell" id="cell" aria-colindex={shown === undefined ? 1 : (shown % layout.columns) + 1}>
            {words || "No rank is chosen"}
          </div>
        </div>
      </div>
      <p class="pointed" aria-hidden="true">
        {words || "Point at a cell, or move with the arrow keys; a click opens the rank."}
      </p>
      <ul class="legend" aria-label="Colours">
        <li>
          <span class="swatch low" /> {percent(range.least * 100)} own time
        </li>
        <li>
          <span class="swatch high" /> {percent(range.most * 100)} own time
        </li>
        <li>
          <span class="swatch framed" /> the others wait for it
        </li>
        <li>
          <span class="swatch lost" /> lost (crossed)
        </li>
        <li>
          <span class="swatch gone" /> left
        </li>
      </ul>
    </div>
  );
}

interface WorkerTableProps extends JobProps {
  readonly host?: string;
}

// The worst first, by what the address says; of one host, or of all.
export function WorkerTable({ tenant, name, address, host }: WorkerTableProps): JSX.Element {
  const order = address.query["order"] ?? "alone";
  const offset = Number(address.query["offset"] ?? "0");
  const size = order === "alone" && host === undefined ? WORST : PAGE;
  const fields = { order, offset, limit: size, ...(host === undefined ? {} : { host }) };
  const loaded = useLoad<Workers>(
    `${tenant}/${name}/${JSON.stringify(fields)}`,
    () => askJson(viewOf(tenant, name, "workers", fields)),
    isAbout(tenant, name),
  );
  const columns: Column<Worker>[] = [
    {
      name: "Rank",
      isNumber: true,
      order: "rank",
      of: (worker) => (worker.state === "waiting" ? "–" : <a href={showPart(tenant, name, "rank", worker.rank)}>{worker.rank}</a>),
    },
    { name: "Host", of: (worker) => <a href={showPart(tenant, name, "host", worker.host_id)}>{worker.hostname}</a> },
    { name: "State", of: (worker) => <><State state={worker.state} /> <span class="remark">{lossOf(worker.state) || worker.state.split(": ").slice(1).join(": ")}</span></> },
    { name: "Missed alone", isNumber: true, order: "alone", of: (worker) => (worker.measured ? `${(worker.measured.alone_seconds ?? 0).toFixed(1)} s` : "–") },
    { name: "Last in", isNumber: true, of: (worker) => (worker.measured ? `${count(worker.measured.last_steps ?? 0)} of ${count(worker.measured.steps)}` : "–") },
    { name: "Own", isNumber: true, order: "own", of: (worker) => percent(worker.measured?.own_percent) },
    { name: "Waits", isNumber: true, order: "waited", of: (worker) => percent(worker.measured?.waited_percent) },
    { name: "Collectives", isNumber: true, order: "transfer", of: (worker) => percent(worker.measured?.transfer_percent) },
    { name: "CPU", isNumber: true, order: "cpu", of: (worker) => percent(worker.measured?.cpu_percent) },
    { name: "Heard of", isNumber: true, order: "silence", of: (worker) => (worker.state === "live" ? `${duration(worker.silence_ms)} ago` : "–") },
  ];
  if (loaded.value?.workers.some((worker) => worker.gpu)) {
    const gpuOf = (worker: Worker): string =>
      worker.gpu ? `${percent(worker.gpu.busy_percent)} busy, ${showBytes(worker.gpu.memory_used_bytes)}` : "–";
    columns.push({ name: "GPU", of: gpuOf });
  }
  return (
    <Show of={loaded}>
      {(list) => (
        <>
          {host === undefined && <h3>{order === "alone" ? `The ${Math.min(WORST, list.found)} that the others wait for longest` : "All ranks"}</h3>}
          <Table
            label="Ranks"
            columns={columns}
            rows={list.workers}
            keyOf={(worker) => worker.incarnation}
            ordered={order}
            onOrder={(next) => setQuery(address, { order: next, offset: "" })}
          />
          {size === PAGE && <Pager found={list.found} offset={offset} size={size} noun="ranks" onMove={(next) => setQuery(address, { offset: String(next) })} />}
        </>
      )}
    </Show>
  );
}
