// Tenants with their quotas, and what they use of them.
import type { JSX } from "preact";
import { setQuery, show, type Address } from "./address";
import { askJson, type Rights, type Tenants } from "./api";
import { ago, bytes, count } from "./format";
import { hasStates, useLoad } from "./load";
import { Command, Empty, Pager, Show, Table, type Column } from "./parts";
import { useRights } from "./rights";

const PAGE = 100;
type Tenant = Tenants["tenants"][number];

// A used part of a quota: what is full is said in words too.
function Used({ used, most, text }: { used: number; most: number; text: (value: number) => string }): JSX.Element {
  return <span class={used >= most ? "stalled" : ""}>{`${text(used)} of ${text(most)}${used >= most ? ", full" : ""}`}</span>;
}

function columnsOf(list: Tenants, rights: Rights | undefined): Column<Tenant>[] {
  const columns: Column<Tenant>[] = [
    { name: "Tenant", of: (one) => <a href={show([], { search: `${one.tenant}/` })}>{one.tenant}</a> },
    { name: "Jobs", isNumber: true, of: (one) => <Used used={one.jobs} most={one.max_jobs} text={count} /> },
    { name: "Workers", isNumber: true, of: (one) => <Used used={one.workers} most={one.max_workers} text={count} /> },
    { name: "Store", isNumber: true, of: (one) => <Used used={one.store_bytes} most={one.max_store_bytes} text={bytes} /> },
    { name: "Cohort", of: (one) => (one.cohort ? `${one.cohort}: borrows ${count(one.borrow)}, weight ${count(one.weight)}` : "–") },
    { name: "Waiting", isNumber: true, of: (one) => (one.queued_jobs === 0 ? "–" : <a href={show(["queue"])}>{`${count(one.queued_jobs)} for ${count(one.queued_workers)} workers`}</a>) },
    { name: "Tokens", isNumber: true, of: (one) => (rights?.may_manage_tokens ? <a href={show(["tokens"], { tenant: one.tenant })}>{count(one.tokens)}</a> : count(one.tokens)) },
    { name: "Created", isNumber: true, of: (one) => ago(one.created_unix_ms, list.now_unix_ms) },
  ];
  return columns;
}

export function TenantsPage({ address }: { address: Address }): JSX.Element {
  const rights = useRights();
  const { search = "", offset = "0" } = address.query;
  const query = new URLSearchParams({ search, offset, limit: String(PAGE) }).toString();
  const loaded = useLoad<Tenants>(`tenants/${query}`, () => askJson(`/api/v1/tenants?${query}`), hasStates);
  return (
    <>
      <h1 tabIndex={-1}>Tenants</h1>
      <p class="remark">
        {rights?.sees_all_tenants === false ? "Your token shows the quota of its own tenant." : "Quotas, and what is used of them."}
      </p>
      {rights?.sees_all_tenants && (
        <form class="filters" role="search" onSubmit={(event) => event.preventDefault()}>
          <label class="unseen" for="search">
            Search tenants
          </label>
          <input id="search" type="search" placeholder="Search names  ( / )" value={search}
            onInput={(event) => setQuery(address, { search: event.currentTarget.value, offset: "" })} />
        </form>
      )}
      <Show of={loaded}>
        {(list) =>
          list.found === 0 ? (
            <Empty title="No tenant fits.">
              <p>A token of root makes one:</p>
              <Command>farandole tenant create NAME --workers 64 --out NAME.token</Command>
            </Empty>
          ) : (
            <>
              <Table label="Tenants" columns={columnsOf(list, rights)} rows={list.tenants} keyOf={(one) => one.tenant} />
              <Pager found={list.found} offset={Number(offset)} size={PAGE} noun="tenants" onMove={(next) => setQuery(address, { offset: String(next) })} />
            </>
          )
        }
      </Show>
      {rights?.may_manage_tenants && (
        <>
          <p class="remark">A tenant is made, and its quota is set, by commands:</p>
          <Command>{"farandole tenant create NAME --workers 64 --out NAME.token\nfarandole quota set NAME --jobs 8 --workers 128"}</Command>
        </>
      )}
    </>
  );
}
