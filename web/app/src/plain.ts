// Shows what comes from outside for what it is. Names that programs choose are in the coordinator's answers, in its
// sentences, and in addresses that somebody has sent; all of it reaches the page by Preact, which asks here first.
import { options, type VNode } from "preact";

// Characters that are not seen, or by which a browser shows others in another order. Lines and tabs stay: stacks have them.
const UNSEEN = /(?![\t\n])[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu;
// An input keeps what is typed.
const isTyped = (element: string, property: string): boolean => property === "value" && element !== "option";

function escaped(one: string): string {
  const code = (one.codePointAt(0) ?? 0).toString(16);
  return code.length > 4 ? `\\u{${code}}` : `\\u${code.padStart(4, "0")}`;
}

// Has those characters as "\u202e": a name changes no words beside it.
export const plain = (text: string): string => text.replace(UNSEEN, escaped);

// From now on each text and each property of an element is plain.
export function showAllPlain(): void {
  options.vnode = (vnode: VNode): void => {
    const node: { type: unknown; props: unknown } = vnode;
    // Those of a text are the text.
    if (typeof node.props === "string") node.props = plain(node.props);
    if (typeof node.type !== "string") return;
    const props = node.props as Record<string, unknown>;
    for (const [name, value] of Object.entries(props)) {
      if (typeof value === "string" && !isTyped(node.type, name)) props[name] = plain(value);
    }
  };
}
