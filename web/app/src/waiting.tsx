// The queue: launches that wait until their tenant's quota has room for them.
import type { JSX } from "preact";
import { setQuery, show, type Address } from "./address";
import { askJson, type Queue } from "./api";
import { ago, count } from "./format";
import { hasStates, useLoad } from "./load";
import { Command, Empty, Pager, Show, Table, type Column } from "./parts";
import { useRights } from "./rights";

const PAGE = 100;
type Waiting = Queue["queue"][number];

// Places in a cohort change by jobs of other tenants too, of which the page is told nothing.
const IDLE_MS = 5000;

export function QueuePage({ address }: { address: Address }): JSX.Element {
  const sees = useRights()?.sees_all_tenants === true;
  const offset = Number(address.query["offset"] ?? "0");
  const loaded = useLoad<Queue>(`queue/${offset}`, () => askJson(`/api/v1/queue?offset=${offset}&limit=${PAGE}`), hasStates, IDLE_MS);
  const columnsOf = (now: number): Column<Waiting>[] => [
    { name: "Job", of: (one) => <a href={show(["jobs", one.tenant, one.job])}>{sees ? `${one.tenant}/${one.job}` : one.job}</a> },
    { name: "Place", of: (one) => `${count(one.position)} of ${count(one.length)}${one.pool === one.tenant ? "" : ` in ${one.pool}`}` },
    { name: "Workers", isNumber: true, of: (one) => count(one.workers) },
    { name: "Came", isNumber: true, of: (one) => ago(one.since_unix_ms, now) },
    { name: "Why it does not start now", of: (one) => one.reason },
  ];
  return (
    <>
      <h1 tabIndex={-1}>Queue</h1>
      <p class="remark">In the order in which they are to start. A job's page has the form by which it gives its place up.</p>
      <Show of={loaded}>
        {(list) =>
          list.found === 0 ? (
            <Empty title="No launch waits.">
              <p>One waits here when its tenant's quota has no room for it now:</p>
              <Command>farandole run -np 4 --coordinator HOST:PORT --token-file FILE python train.py</Command>
              <p>
                <a href={show(["tenants"])}>Quotas, and what is used of them</a>
              </p>
            </Empty>
          ) : (
            <>
              <Table label="Queue" columns={columnsOf(list.now_unix_ms)} rows={list.queue} keyOf={(one) => `${one.tenant}/${one.job}`} />
              <Pager found={list.found} offset={offset} size={PAGE} noun="launches" onMove={(next) => setQuery(address, { offset: String(next) })} />
            </>
          )
        }
      </Show>
    </>
  );
}
