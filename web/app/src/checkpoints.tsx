// A job's checkpoints, as its catalogue has them.
import type { JSX } from "preact";
import { setQuery } from "./address";
import { askJson, viewOf, type Checkpoints as CheckpointList } from "./api";
import { ago, bytes, count } from "./format";
import type { JobProps } from "./job";
import { isAbout, useLoad } from "./load";
import { Command, Empty, Pager, Show, Table, type Column } from "./parts";

const PAGE = 100;
type Checkpoint = CheckpointList["checkpoints"][number];

export function CheckpointTable({ list }: { list: CheckpointList }): JSX.Element {
  const columns: Column<Checkpoint>[] = [
    { name: "Name", of: (one) => one.name },
    { name: "Step", isNumber: true, of: (one) => count(one.step) },
    { name: "Committed", of: (one) => ago(one.committed_unix_ms, list.at_unix_ms) },
    { name: "Size", isNumber: true, of: (one) => bytes(one.size_bytes) },
    { name: "Epoch", isNumber: true, of: (one) => count(one.epoch) },
    { name: "Token", isNumber: true, of: (one) => String(one.token) },
    { name: "Path", of: (one) => <code>{one.path}</code> },
    { name: "SHA-256", of: (one) => <code title={one.sha256}>{one.sha256.slice(0, 12)}</code> },
  ];
  return <Table label="Checkpoints" columns={columns} rows={list.checkpoints} keyOf={(one) => `${one.name}/${one.step}/${one.token}`} />;
}

export function Checkpoints({ tenant, name, address }: JobProps): JSX.Element {
  const offset = Number(address.query["offset"] ?? "0");
  const loaded = useLoad<CheckpointList>(
    `${tenant}/${name}/checkpoints/${offset}`,
    () => askJson(viewOf(tenant, name, "checkpoints", { offset, limit: PAGE })),
    isAbout(tenant, name),
  );
  return (
    <section aria-labelledby="checkpoints-title">
      <h2 id="checkpoints-title">Checkpoints, the newest first</h2>
      <Show of={loaded}>
        {(list) =>
          list.found === 0 ? (
            <Empty title="No checkpoint yet.">
              <p>A program commits one with</p>
              <Command>{'checkpoint.save({"model": model.state_dict(), "step": step}, "checkpoints", step)'}</Command>
            </Empty>
          ) : (
            <>
              <CheckpointTable list={list} />
              <Pager found={list.found} offset={offset} size={PAGE} noun="checkpoints" onMove={(next) => setQuery(address, { offset: String(next) })} />
            </>
          )
        }
      </Show>
    </section>
  );
}
