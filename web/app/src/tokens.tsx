// The tokens that the caller may manage, without their texts.
import type { JSX } from "preact";
import { setQuery, type Address } from "./address";
import { askJson, type Tokens } from "./api";
import { ago, clock } from "./format";
import { useLoad } from "./load";
import { Command, Empty, Pager, Show, Table, type Column } from "./parts";
import { useRights } from "./rights";

const PAGE = 100;
type Token = Tokens["tokens"][number];

function endOf(token: Token): string {
  if (token.overlap_ends_unix_ms > 0) return `its secret of before the rotation is good until ${clock(token.overlap_ends_unix_ms)}`;
  return token.expires_unix_ms === 0 ? "does not expire" : `until ${clock(token.expires_unix_ms)}`;
}

function columnsOf(list: Tokens, withTenant: boolean): Column<Token>[] {
  const tenant: Column<Token>[] = withTenant ? [{ name: "Tenant", of: (one) => one.tenant }] : [];
  return [
    { name: "Id", of: (one) => <code>{one.id}</code> },
    ...tenant,
    { name: "Role", of: (one) => (one.is_start_token ? `${one.role} (the start token)` : one.role) },
    { name: "Label", of: (one) => one.label || "–" },
    {
      name: "State",
      of: (one) =>
        one.ended ? <span class="state ended"><span aria-hidden="true">✕ </span>ended</span> : <span class="state live"><span aria-hidden="true">● </span>good</span>,
    },
    { name: "Ends", of: (one) => one.ended || endOf(one) },
    { name: "Used", isNumber: true, of: (one) => (one.last_used_unix_ms === 0 ? "never" : ago(one.last_used_unix_ms, list.now_unix_ms)) },
    { name: "Made", isNumber: true, of: (one) => ago(one.created_unix_ms, list.now_unix_ms) },
    { name: "With", of: (one) => (one.made_with ? <code>{one.made_with}</code> : "–") },
  ];
}

export function TokensPage({ address }: { address: Address }): JSX.Element {
  const sees = useRights()?.sees_all_tenants === true;
  const { tenant = "", offset = "0" } = address.query;
  const query = new URLSearchParams({ tenant, offset, limit: String(PAGE) }).toString();
  const loaded = useLoad<Tokens>(`tokens/${query}`, () => askJson(`/api/v1/tokens?${query}`), ({ type }) => type === "reset");
  return (
    <>
      <h1 tabIndex={-1}>Tokens</h1>
      <p class="remark">An id names a token and is no secret. Nobody can read a token's text here, nor anywhere else.</p>
      {sees && (
        <form class="filters" role="search" onSubmit={(event) => event.preventDefault()}>
          <label>
            Of tenant{" "}
            <input id="search" type="search" placeholder="all  ( / )" value={tenant}
              onInput={(event) => setQuery(address, { tenant: event.currentTarget.value, offset: "" })} />
          </label>
        </form>
      )}
      <Show of={loaded}>
        {(list) =>
          list.found === 0 ? (
            <Empty title="No token.">
              <p>{tenant ? `There is no tenant ${tenant}, or it has none. ` : ""}A command makes one:</p>
              <Command>farandole token create --role viewer --out FILE</Command>
            </Empty>
          ) : (
            <>
              <Table label="Tokens" columns={columnsOf(list, sees)} rows={list.tokens} keyOf={(one) => one.id} />
              <Pager found={list.found} offset={Number(offset)} size={PAGE} noun="tokens" onMove={(next) => setQuery(address, { offset: String(next) })} />
              <p class="remark">Commands make, rotate and revoke tokens; the audit log has each:</p>
              <Command>{"farandole token create --role launcher --out FILE\nfarandole token rotate ID --overlap 1h --out FILE\nfarandole token revoke ID --and-made-with-it"}</Command>
            </>
          )
        }
      </Show>
    </>
  );
}
