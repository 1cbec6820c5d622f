// The graph of who waits for whom: a box for each group of ranks, an arrow for each collective that some wait in and others have
// not submitted. Its numbers are those of the table beside it, which says the same in words.
import type { JSX } from "preact";
import type { HangWait, RankGroup } from "./evidence";

const WIDTH = 344;
const BOX = { x: 4, width: 200, height: 44, gap: 18 };
// Arrows bend differently far, so that their numbers keep apart.
const LANE = { first: 40, width: 32, count: 4 };
// An arrow leaves a box above its middle, and comes to one below it.
const APART = 9;
const MOST_TEXT = 26;

interface Node {
  readonly text: string;
  readonly count: number;
  waits: boolean;
  isMissing: boolean;
}

function nodesOf(waits: readonly HangWait[]): Node[] {
  const nodes = new Map<string, Node>();
  const at = ({ text, count }: RankGroup): Node => {
    const node = nodes.get(text) ?? { text, count, waits: false, isMissing: false };
    nodes.set(text, node);
    return node;
  };
  for (const wait of waits) {
    if (wait.waiting.count > 0) at(wait.waiting).waits = true;
    if (wait.missing.count > 0) at(wait.missing).isMissing = true;
  }
  // Those that keep others waiting, and do not wait themselves, come last.
  const order = (node: Node): number => (node.waits ? 0 : 1);
  return [...nodes.values()].sort((a, b) => order(a) - order(b));
}

function roleOf({ waits, isMissing, count }: Node): string {
  const others = count === 1 ? "others wait for it" : "others wait for them";
  if (!waits) return others;
  return `${count === 1 ? "waits" : "wait"}${isMissing ? `, and ${others}` : ""}`;
}

const shortened = (text: string): string => (text.length <= MOST_TEXT ? text : `${text.slice(0, MOST_TEXT - 1)}…`);

export function WaitGraph({ waits }: { waits: readonly HangWait[] }): JSX.Element | null {
  const nodes = nodesOf(waits);
  const place = new Map(nodes.map((node, index) => [node.text, index]));
  const middle = (index: number): number => 4 + index * (BOX.height + BOX.gap) + BOX.height / 2;
  const edges = waits.flatMap((wait, number) => {
    const from = place.get(wait.waiting.text);
    const to = place.get(wait.missing.text);
    return from === undefined || to === undefined ? [] : [{ number: number + 1, from, to }];
  });
  if (edges.length === 0) return null;
  const right = BOX.x + BOX.width;
  const height = nodes.length * (BOX.height + BOX.gap);
  const words = waits.map((wait) => `${wait.waiting.text} ${wait.waiting.count === 1 ? "waits" : "wait"} for ${wait.missing.text || "nobody"}`).join("; ");
  return (
    <svg class="waits" viewBox={`0 0 ${WIDTH} ${height}`} role="img" aria-label={`Graph: ${words}`}>
      <defs>
        <marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">
          <path d="M0 0 8 4 0 8z" class="head" />
        </marker>
      </defs>
      {nodes.map((node, index) => (
        <g key={node.text} class={node.waits ? "node" : "node missing"}>
          <title>{node.text}</title>
          <rect x={BOX.x} y={middle(index) - BOX.height / 2} width={BOX.width} height={BOX.height} rx="6" />
          <text x={BOX.x + 10} y={middle(index) - 4} class="who">
            {shortened(node.text)}
          </text>
          <text x={BOX.x + 10} y={middle(index) + 14}>
            {roleOf(node)}
          </text>
        </g>
      ))}
      {edges.map(({ number, from, to }, lane) => {
        const y1 = middle(from) - APART;
        const y2 = middle(to) + APART;
        const bend = right + LANE.first + (lane % LANE.count) * LANE.width;
        const x = (2 * right + 6 * bend) / 8;
        const y = (y1 + y2) / 2;
        return (
          <g key={number} class="edge">
            <path d={`M${right} ${y1}C${bend} ${y1} ${bend} ${y2} ${right + 2} ${y2}`} marker-end="url(#head)" />
            <circle cx={x} cy={y} r="9" />
            <text x={x} y={y + 4} text-anchor="middle">
              {number}
            </text>
          </g>
        );
      })}
    </svg>
  );
}
