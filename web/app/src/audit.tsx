// The audit log: who has changed what, and for root who was denied what; the newest first.
import { Fragment, type JSX } from "preact";
import { setQuery, show, type Address } from "./address";
import { askJson, type Audit, type AuditLine } from "./api";
import { clock, count } from "./format";
import { useLoad } from "./load";
import { Command, Empty, Show, Table, type Column } from "./parts";
import { useRights } from "./rights";

const CHAINS = ["changes", "denials"] as const;

function whoOf({ principal }: AuditLine): string {
  if (principal === undefined) return "–";
  if (typeof principal === "string") return principal || "nobody known";
  const more = principal.subject ?? principal.spiffe ?? principal.job;
  return `${principal.kind} ${principal.id}${principal.role ? ` (${principal.role} of ${principal.tenant})` : ` of ${principal.tenant}`}${more ? `: ${more}` : ""}`;
}

// A job's target leads to its page.
function Target({ target }: { target: string }): JSX.Element {
  const [, before = "", tenant, job] = /^(.*\bjob )([a-z0-9-]+)\/([A-Za-z0-9._-]+)$/.exec(target) ?? [];
  if (tenant === undefined || job === undefined) return <>{target || "–"}</>;
  return (
    <>
      {before}
      <a href={show(["jobs", tenant, job])}>{`${tenant}/${job}`}</a>
    </>
  );
}

// "AdminService.<wbr>AbortJob": a line breaks between its parts, rather than within them.
function Call({ method }: { method: string }): JSX.Element {
  const parts = method.split(/(?<=[./])/);
  return <code>{parts.map((part, index) => (index === 0 ? part : <Fragment key={index}><wbr />{part}</Fragment>))}</code>;
}

const columns: Column<AuditLine>[] = [
  { name: "Time", of: (line) => <time dateTime={line.time}>{clock(Date.parse(line.time))}</time> },
  { name: "Who", of: whoOf },
  { name: "From", of: (line) => line.peer?.replace(/^ipv[46]:/, "") || "–" },
  { name: "Call", of: (line) => <Call method={line.method ?? ""} /> },
  { name: "Of", of: (line) => <Target target={line.target ?? ""} /> },
  {
    name: "Outcome",
    of: (line) => <span class={line.outcome === "allowed" ? "" : "failed"}>{`${line.outcome}${line.count ? `, ${count(line.count)} more` : ""}${line.reason ? `: ${line.reason}` : ""}`}</span>,
  },
];

export function AuditPage({ address }: { address: Address }): JSX.Element {
  const rights = useRights();
  const { chain = "changes", before = "" } = address.query;
  const query = new URLSearchParams({ chain, before }).toString();
  const loaded = useLoad<Audit>(`audit/${query}`, () => askJson(`/api/v1/audit?${query}`), ({ type }) => type === "reset");
  return (
    <>
      <h1 tabIndex={-1}>Audit log</h1>
      <p class="remark">
        {rights?.sees_all_tenants ? "Who has changed what, and who was denied what." : "What your tenant's people and programs have changed."} The newest come first.
      </p>
      {rights?.sees_all_tenants && (
        <div class="filters chips" role="group" aria-label="Which lines">
          {CHAINS.map((one) => (
            <button key={one} type="button" class="chip" aria-pressed={chain === one} onClick={() => setQuery(address, { chain: one, before: "" })}>
              {one}
            </button>
          ))}
        </div>
      )}
      <Show of={loaded}>{(audit) => <Lines audit={audit} address={address} />}</Show>
    </>
  );
}

function Lines({ audit, address }: { audit: Audit; address: Address }): JSX.Element {
  const isFirst = (address.query["before"] ?? "") === "";
  if (!audit.is_kept) {
    return (
      <Empty title="This coordinator keeps no audit log.">
        <p>It has no state directory. One that has keeps it:</p>
        <Command>farandole serve --http 127.0.0.1:7071 --state-dir DIR</Command>
      </Empty>
    );
  }
  return (
    <>
      {audit.lines.length === 0 && (
        <Empty title={audit.next === "" ? "There is no line." : "None of these lines is about your tenant."}>
          <p>Each change has one, such as this one's:</p>
          <Command>{'farandole job abort NAME --reason "..."'}</Command>
        </Empty>
      )}
      {audit.lines.length > 0 && <Table label="Audit log" columns={columns} rows={audit.lines} keyOf={(line) => `${line.seq ?? ""} ${line.time} ${line.method} ${line.target}`} />}
      {(!isFirst || audit.next !== "") && (
        <nav class="pager" aria-label="Parts of the audit log">
          <button type="button" disabled={isFirst} onClick={() => setQuery(address, { before: "" })}>
            Newest
          </button>
          <button type="button" disabled={audit.next === ""} onClick={() => setQuery(address, { before: audit.next })}>
            Earlier
          </button>
        </nav>
      )}
    </>
  );
}
