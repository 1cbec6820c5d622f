// In which collectives the ranks are: where all but a few wait in one, the others have not submitted it yet.
import type { JSX } from "preact";
import { showPart } from "./address";
import { askJson, viewOf, type Collectives as Found } from "./api";
import { count, duration } from "./format";
import type { JobProps } from "./job";
import { isAbout, useLoad } from "./load";
import { Empty, Show, Table, type Column } from "./parts";

type Row = Found["collectives"][number];

export function Collectives({ tenant, name }: JobProps): JSX.Element {
  const loaded = useLoad<Found>(
    `${tenant}/${name}/collectives`,
    () => askJson(viewOf(tenant, name, "collectives")),
    isAbout(tenant, name),
  );
  const columns: Column<Row>[] = [
    { name: "Collective", of: (row) => <code>{row.name}</code> },
    { name: "Submitted last by", isNumber: true, of: (row) => count(row.submitted) },
    { name: "Waiting", isNumber: true, of: (row) => count(row.waiting) },
    { name: "Running on", isNumber: true, of: (row) => count(row.running) },
    { name: "Longest wait", isNumber: true, of: (row) => (row.waiting > 0 ? duration(row.longest_wait_ms) : "–") },
    {
      name: "For example",
      of: (row) => (row.submitted > 0 ? <a href={showPart(tenant, name, "rank", row.first_rank)}>rank {row.first_rank}</a> : "–"),
    },
  ];
  return (
    <section aria-labelledby="collectives-title">
      <h2 id="collectives-title">Where the ranks are</h2>
      <Show of={loaded}>
        {(found) =>
          found.found === 0 ? (
            <Empty title="No collective is known.">
              <p>Ranks tell it twice a second while an epoch runs and has been measured.</p>
            </Empty>
          ) : (
            <>
              <p class="remark">{`As ${count(found.measured)} ranks said in their last half second; ${count(found.found)} collectives.`}</p>
              <Table label="Collectives" columns={columns} rows={found.collectives} keyOf={(row) => row.name} />
            </>
          )
        }
      </Show>
    </section>
  );
}
