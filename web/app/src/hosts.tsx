// The hosts of a job with their network, and one host with its ranks.
import type { JSX } from "preact";
import { setQuery, showPart } from "./address";
import { askJson, viewOf, type Host, type Hosts as HostList, type Job } from "./api";
import { Charts } from "./charts";
import { DrainHost } from "./departures";
import { bytes, count, percent } from "./format";
import type { JobProps } from "./job";
import { isAbout, useLoad, valueOf } from "./load";
import { Command, Empty, Pager, Show, Shares, Table, type Column } from "./parts";
import { WorkerTable } from "./ranks";

const PAGE = 100;
const rate = (value: number | undefined): string => (value === undefined ? "–" : `${bytes(value)}/s`);
const ranksOf = (host: Host): string => (host.ranks === 1 ? `${host.first_rank}` : `${host.first_rank}–${host.last_rank}`);

export function Hosts({ tenant, name, address }: JobProps): JSX.Element {
  const offset = Number(address.query["offset"] ?? "0");
  const loaded = useLoad<HostList>(
    `${tenant}/${name}/hosts/${offset}`,
    () => askJson(viewOf(tenant, name, "hosts", { offset, limit: PAGE })),
    isAbout(tenant, name),
  );
  const columns: Column<Host>[] = [
    { name: "Host", of: (host) => <a href={showPart(tenant, name, "host", host.host_id)}>{host.hostname || host.host_id}</a> },
    { name: "Ranks", isNumber: true, of: ranksOf },
    { name: "Live", isNumber: true, of: (host) => count(host.live) },
    { name: "Lost", isNumber: true, of: (host) => <span class={host.lost > 0 ? "lost" : ""}>{count(host.lost)}</span> },
    { name: "Own", isNumber: true, of: (host) => percent(host.own_percent) },
    { name: "Waits", isNumber: true, of: (host) => percent(host.waited_percent) },
    { name: "Collectives", isNumber: true, of: (host) => percent(host.transfer_percent) },
    { name: "Received", isNumber: true, of: (host) => rate(host.received_bytes_per_second) },
    { name: "Sent", isNumber: true, of: (host) => rate(host.sent_bytes_per_second) },
    { name: "Retransmits", isNumber: true, of: (host) => (host.retransmits === undefined ? "–" : count(host.retransmits)) },
  ];
  return (
    <section aria-labelledby="hosts-title">
      <h2 id="hosts-title">Hosts</h2>
      <Show of={loaded}>
        {(list) =>
          list.found === 0 ? (
            <Empty title="No host takes part.">
              <p>Hosts appear with the job's first epoch, when all of its workers have joined:</p>
              <Command>{`farandole job show ${name}`}</Command>
            </Empty>
          ) : (
            <>
              <Table label="Hosts" columns={columns} rows={list.hosts} keyOf={(host) => host.host_id} />
              <Pager found={list.found} offset={offset} size={PAGE} noun="hosts" onMove={(next) => setQuery(address, { offset: String(next) })} />
            </>
          )
        }
      </Show>
    </section>
  );
}

export function HostPage({ tenant, name, address, job, host: id }: JobProps & { job: Job; host: string }): JSX.Element {
  const loaded = useLoad<HostList>(
    `${tenant}/${name}/host/${id}`,
    () => askJson(viewOf(tenant, name, "hosts", { host: id })),
    isAbout(tenant, name),
  );
  const host = valueOf(loaded)?.hosts[0];
  return (
    <section aria-labelledby="host-title">
      <h2 id="host-title">{`Host ${host?.hostname || id}`}</h2>
      <DrainHost tenant={tenant} name={name} job={job} host={host} />
      <Show of={loaded}>
        {() =>
          host === undefined ? (
            <Empty title="No such host takes part in this epoch.">
              <p><a href={showPart(tenant, name, "hosts")}>All hosts</a></p>
            </Empty>
          ) : (
            <>
              {host.own_percent !== undefined && (
                <Shares own={host.own_percent} waited={host.waited_percent ?? 0} transfer={host.transfer_percent ?? 0} />
              )}
              <dl class="tiles">
                <div><dt>ranks</dt><dd>{ranksOf(host)}</dd></div>
                <div><dt>live</dt><dd>{count(host.live)}</dd></div>
                <div><dt>CPU of a rank</dt><dd>{percent(host.cpu_percent)}</dd></div>
                <div><dt>received</dt><dd>{rate(host.received_bytes_per_second)}</dd></div>
                <div><dt>sent</dt><dd>{rate(host.sent_bytes_per_second)}</dd></div>
                <div><dt>retransmits this epoch</dt><dd>{host.retransmits === undefined ? "–" : count(host.retransmits)}</dd></div>
              </dl>
              <h3>Over time</h3>
              <Charts tenant={tenant} name={name} address={address} of={{ host: id }} />
              <h3>Its ranks</h3>
              <WorkerTable tenant={tenant} name={name} address={address} host={id} />
            </>
          )
        }
      </Show>
    </section>
  );
}
