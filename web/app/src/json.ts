// Reads the coordinator's JSON. Names that programs choose are in it, and in its sentences.

// Characters that are not seen, and by which a browser shows others in another order.
const BIDI = /[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/;
// The page asks for a host by these: they stay as they are.
const KEYS: readonly string[] = ["host_id", "hostname"];

const escaped = (text: string): string =>
  text.replace(new RegExp(BIDI, "g"), (one) => `\\u${one.charCodeAt(0).toString(16).padStart(4, "0")}`);

// Texts have those characters as "\u202e": a name changes no words beside it, and is seen for what it is.
export function readJson<T>(text: string): T {
  if (!BIDI.test(text)) return JSON.parse(text) as T;
  return JSON.parse(text, (key, value: unknown) => (typeof value === "string" && !KEYS.includes(key) ? escaped(value) : value)) as T;
}
