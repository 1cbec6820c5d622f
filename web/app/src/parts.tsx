// Pieces that several views share.
import type { ComponentChildren, JSX } from "preact";
import { Refusal } from "./api";
import { valueOf, type Loaded } from "./load";
import { percent } from "./format";

// A state, never by its colour alone.
export function State({ state }: { state: string }): JSX.Element {
  const kind = state.split(":")[0] ?? state;
  const signs: Record<string, string> = {
    running: "▶", live: "●", queued: "⋯", forming: "◌", waiting: "◌", returning: "◌", finished: "✓", left: "✓", ended: "✓",
    failed: "✕", lost: "✕", draining: "↘",
  };
  return (
    <span class={`state ${kind}`}>
      <span aria-hidden="true">{signs[kind] ?? "·"} </span>
      {kind}
    </span>
  );
}

// Own, wait and transfer of a span of time, as a bar with its numbers.
export function Shares({ own, waited, transfer }: { own: number; waited: number; transfer: number }): JSX.Element {
  const parts = [
    { name: "own", title: "own time", value: own },
    { name: "waited", title: "waiting for ranks", value: waited },
    { name: "transfer", title: "collectives", value: transfer },
  ];
  return (
    <div class="shares">
      <div class="bar" aria-hidden="true">
        {parts.map((part) => (
          <span key={part.name} class={part.name} style={{ width: `${part.value}%` }} />
        ))}
      </div>
      <ul class="legend">
        {parts.map((part) => (
          <li key={part.name}>
            <span class={`swatch ${part.name}`} aria-hidden="true" /> {percent(part.value)} {part.title}
          </li>
        ))}
      </ul>
    </div>
  );
}

export function Empty({ title, children }: { title: string; children: ComponentChildren }): JSX.Element {
  return (
    <div class="empty">
      <p class="title">{title}</p>
      {children}
    </div>
  );
}

export function Command({ children }: { children: string }): JSX.Element {
  return <pre class="command" tabIndex={0}>{children}</pre>;
}

// Why something cannot be shown: each kind of refusal has its own words and way out.
export function Problem({ problem }: { problem: Refusal }): JSX.Element {
  const words: Record<number, [string, string]> = {
    0: ["The coordinator does not answer", "The page asks again by itself. `farandole job list` says which coordinators run on that host."],
    403: ["No rights", "Your token may not see this. Sign out, and sign in with a token whose role may."],
    404: ["There is no such thing", "It may have another name, or the coordinator does not keep it any more."],
  };
  const [title, advice] = words[problem.status] ?? ["The coordinator refused", "The page asks again by itself."];
  return (
    <div class="empty problem" role="alert">
      <p class="title">{title}</p>
      <p>{problem.message}</p>
      <p class="remark">{advice}</p>
    </div>
  );
}

// The three states of what is loaded; a value stays in sight while the coordinator is away.
export function Show<T>({ of, children }: { of: Loaded<T>; children: (value: T) => ComponentChildren }): JSX.Element {
  const value = valueOf(of);
  if (value !== undefined) return <>{children(value)}</>;
  if (of.problem !== undefined) return <Problem problem={of.problem} />;
  return (
    <div class="loading" role="status">
      <span class="unseen">Loading</span>
      <div class="skeleton" aria-hidden="true" />
      <div class="skeleton short" aria-hidden="true" />
      <div class="skeleton" aria-hidden="true" />
    </div>
  );
}

export interface Column<T> {
  readonly name: string;
  readonly isNumber?: boolean;
  // By which the server can order, and whether it does.
  readonly order?: string;
  readonly of: (row: T) => ComponentChildren;
}

interface TableProps<T> {
  readonly label: string;
  readonly columns: readonly Column<T>[];
  readonly rows: readonly T[];
  readonly keyOf: (row: T) => string;
  readonly ordered?: string;
  readonly onOrder?: (order: string) => void;
}

// The first column names the row. On a phone each row becomes a card.
export function Table<T>({ label, columns, rows, keyOf, ordered, onOrder }: TableProps<T>): JSX.Element {
  const head = (column: Column<T>): ComponentChildren => {
    const { order } = column;
    if (!order || !onOrder) return column.name;
    return (
      <button type="button" class="order" onClick={() => onOrder(order)}>
        {column.name}
        <span aria-hidden="true">{ordered === order ? " ▾" : ""}</span>
      </button>
    );
  };
  return (
    <div class="table" role="region" aria-label={`Table: ${label}`} tabIndex={0}>
      <table>
        <caption class="unseen">{label}</caption>
        <thead>
          <tr>
            {columns.map((column) => (
              <th
                key={column.name}
                scope="col"
                class={column.isNumber ? "number" : ""}
                aria-sort={column.order && ordered === column.order ? "descending" : undefined}
              >
                {head(column)}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={keyOf(row)}>
              {columns.map((column, index) =>
                index === 0 ? (
                  <th key={column.name} scope="row" class={column.isNumber ? "number" : ""}>
                    {column.of(row)}
                  </th>
                ) : (
                  <td key={column.name} class={column.isNumber ? "number" : ""} data-name={column.name}>
                    {column.of(row)}
                  </td>
                ),
              )}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

interface PagerProps {
  readonly found: number;
  readonly offset: number;
  readonly size: number;
  readonly noun: string;
  readonly onMove: (offset: number) => void;
}

export function Pager({ found, offset, size, noun, onMove }: PagerProps): JSX.Element | null {
  if (found <= size && offset === 0) return null;
  return (
    <nav class="pager" aria-label={`Pages of ${noun}`}>
      <button type="button" disabled={offset === 0} onClick={() => onMove(Math.max(0, offset - size))}>
        Previous
      </button>
      <span>
        {Math.min(offset + 1, found)} to {Math.min(offset + size, found)} of {found} {noun}
      </span>
      <button type="button" disabled={offset + size >= found} onClick={() => onMove(offset + size)}>
        Next
      </button>
    </nav>
  );
}
