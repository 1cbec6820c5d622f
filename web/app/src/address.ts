// The page's address: all that a view shows is in it, so that links can be sent. #/jobs/TENANT/NAME/ranks?order=own
import { useEffect, useState } from "preact/hooks";

export interface Address {
  readonly parts: readonly string[];
  readonly query: Readonly<Record<string, string>>;
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

export function parse(hash: string): Address {
  const [path = "", query = ""] = hash.replace(/^#\/?/, "").split("?", 2);
  const parts = path.split("/").filter((part) => part !== "").map(decode);
  return { parts, query: Object.fromEntries(new URLSearchParams(query)) };
}

export function show(parts: readonly (string | number)[], query: Readonly<Record<string, string>> = {}): string {
  const fields = Object.entries(query).filter(([, value]) => value !== "");
  const path = `#/${parts.map((part) => encodeURIComponent(part)).join("/")}`;
  return fields.length > 0 ? `${path}?${new URLSearchParams(fields)}` : path;
}

// The address of a part of a job, with the time range that the page shows now.
export function showPart(tenant: string, job: string, ...parts: readonly (string | number)[]): string {
  return show(["jobs", tenant, job, ...parts], { range: parse(location.hash).query["range"] ?? "" });
}

export function useAddress(): Address {
  const [address, setAddress] = useState(() => parse(location.hash));
  useEffect(() => {
    const follow = (): void => setAddress(parse(location.hash));
    addEventListener("hashchange", follow);
    return () => removeEventListener("hashchange", follow);
  }, []);
  return address;
}

// Changes fields of the query in place: no step for the browser's way back.
export function setQuery(address: Address, change: Record<string, string>): void {
  history.replaceState(null, "", show(address.parts, { ...address.query, ...change }));
  dispatchEvent(new HashChangeEvent("hashchange"));
}
