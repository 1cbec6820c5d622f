// The dashboard: its frame, and the view that the address names.
import { render, type JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { show, useAddress, type Address } from "./address";
import type { Rights } from "./api";
import { AuditPage } from "./audit";
import { ComparePage } from "./compare";
import { CoordinatorPage } from "./coordinator";
import { duration } from "./format";
import { JobPage } from "./job";
import { Jobs } from "./jobs";
import { connect, useConnection } from "./live";
import { Empty } from "./parts";
import { plain, showAllPlain } from "./plain";
import { RightsProvider, useLoadedRights } from "./rights";
import { TenantsPage } from "./tenants";
import { TokensPage } from "./tokens";
import { QueuePage } from "./waiting";

const THEMES = ["auto", "light", "dark"] as const;
type Theme = (typeof THEMES)[number];

function storedTheme(): Theme {
  const stored = localStorage.getItem("theme");
  return THEMES.find((theme) => theme === stored) ?? "auto";
}

function applyTheme(theme: Theme): void {
  document.documentElement.dataset["theme"] = theme;
  dispatchEvent(new Event("themechange"));
}

function ThemeChoice(): JSX.Element {
  const [theme, setTheme] = useState(storedTheme);
  const next = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length] ?? "auto";
  const choose = (): void => {
    localStorage.setItem("theme", next);
    applyTheme(next);
    setTheme(next);
  };
  return (
    <button type="button" onClick={choose}>
      Theme: {theme}
    </button>
  );
}

// Says so when what is shown may be old.
function Connected(): JSX.Element {
  const connection = useConnection();
  const [now, setNow] = useState(Date.now());
  const isBroken = connection.state === "broken";
  useEffect(() => {
    if (!isBroken) return undefined;
    const timer = setInterval(() => setNow(Date.now()), 1000);
    return () => clearInterval(timer);
  }, [isBroken]);
  const age = now - connection.since;
  const kind = connection.state === "open" ? "open" : !isBroken ? "connecting" : age < 5000 ? "reconnecting" : "disconnected";
  const words = {
    open: "live",
    connecting: "connecting",
    reconnecting: "reconnecting",
    disconnected: `disconnected for ${duration(age)}; this is what the coordinator said last`,
  };
  return (
    <p class={`connection ${kind}`} role="status">
      <span aria-hidden="true">{kind === "open" ? "●" : "○"} </span>
      {words[kind]}
    </p>
  );
}

function View({ address }: { address: Address }): JSX.Element {
  const [first, , third] = address.parts;
  if (first === undefined) return <Jobs address={address} />;
  if (first === "jobs" && third !== undefined) return <JobPage address={address} />;
  if (first === "compare") return <ComparePage address={address} />;
  if (first === "queue") return <QueuePage address={address} />;
  if (first === "tenants") return <TenantsPage address={address} />;
  if (first === "tokens") return <TokensPage address={address} />;
  if (first === "audit") return <AuditPage address={address} />;
  if (first === "coordinator") return <CoordinatorPage />;
  return (
    <>
      <h1 tabIndex={-1}>Nothing here</h1>
      <Empty title={`There is no page at ${location.hash}.`}>
        <p>
          <a href="#/">All jobs</a>
        </p>
      </Empty>
    </>
  );
}

interface PageLink {
  readonly name: string;
  readonly parts: readonly string[];
  // "": for all who are signed in.
  readonly needs: keyof Rights | "";
}

const PAGES: readonly PageLink[] = [
  { name: "Jobs", parts: [], needs: "" },
  { name: "Compare", parts: ["compare"], needs: "" },
  { name: "Queue", parts: ["queue"], needs: "" },
  { name: "Tenants", parts: ["tenants"], needs: "" },
  { name: "Tokens", parts: ["tokens"], needs: "may_manage_tokens" },
  { name: "Audit", parts: ["audit"], needs: "may_read_audit" },
  { name: "Coordinator", parts: ["coordinator"], needs: "may_see_metrics" },
];

const isAt = (page: PageLink, first: string | undefined): boolean => (first === "jobs" ? undefined : first) === page.parts[0];

// Those that the token may not see are not there; their addresses say why.
function Pages({ first, rights }: { first: string | undefined; rights: Rights | undefined }): JSX.Element {
  return (
    <nav aria-label="Pages">
      {PAGES.filter(({ needs }) => needs === "" || rights?.[needs] === true).map((page) => (
        <a key={page.name} href={show(page.parts)} aria-current={isAt(page, first) ? "page" : undefined}>
          {page.name}
        </a>
      ))}
    </nav>
  );
}

function titleOf({ parts }: Address): string {
  const page = PAGES.find((one) => one.parts.length > 0 && isAt(one, parts[0]));
  if (page) return `${page.name} - Farandole`;
  return parts[2] === undefined ? "Jobs - Farandole" : `${parts.slice(2).join(" ")} - Farandole`;
}

function App(): JSX.Element {
  const address = useAddress();
  const place = address.parts.join("/");
  const isFirst = useRef(true);
  useEffect(() => {
    document.title = plain(titleOf(address));
    if (!isFirst.current && document.activeElement?.closest("main nav.tabs") === null) document.querySelector<HTMLElement>("h1")?.focus();
    isFirst.current = false;
  }, [place]);
  useEffect(() => {
    const onKey = (event: KeyboardEvent): void => {
      if (event.key !== "/" || event.ctrlKey || event.metaKey || event.target instanceof HTMLInputElement) return;
      const search = document.getElementById("search");
      if (!search) return;
      search.focus();
      event.preventDefault();
    };
    addEventListener("keydown", onKey);
    return () => removeEventListener("keydown", onKey);
  }, []);
  const rights = useLoadedRights();
  const licenses = document.querySelector<HTMLMetaElement>("meta[name=farandole-licenses]")?.content;
  return (
    <RightsProvider value={rights}>
      <a class="skip" href="#main" onClick={(event) => { event.preventDefault(); document.querySelector<HTMLElement>("h1")?.focus(); }}>
        To the content
      </a>
      <header>
        <a class="brand" href="#/">
          Farandole
        </a>
        <Pages first={address.parts[0]} rights={rights} />
        <Connected />
        <ThemeChoice />
        <form method="post" action="/logout">
          <button type="submit">Sign out</button>
        </form>
      </header>
      <main id="main">
        <View address={address} />
      </main>
      <footer>
        <a href={licenses}>Licences of what this page uses</a>
      </footer>
    </RightsProvider>
  );
}

applyTheme(storedTheme());
showAllPlain();
connect();
const place = document.getElementById("app");
if (place) render(<App />, place);
