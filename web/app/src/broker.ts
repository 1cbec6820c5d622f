// Follows the coordinator's events for all pages of a browser: HTTP/1.1 gives them six connections together. Runs in a
// SharedWorker, or in the page itself where a browser has none.

// A page's message: the jobs that it watches ("TENANT/NAME"), or null while nobody sees it.
export type Wish = { readonly watch: readonly string[] | null };

export type Told =
  | { readonly kind: "open" }
  | { readonly kind: "broken"; readonly since: number }
  | { readonly kind: "event"; readonly type: "jobs" | "look" | "reset"; readonly data: unknown };

export type Listener = (told: Told) => void;

const FIRST_PAUSE_MS = 500;
const LONGEST_PAUSE_MS = 8000;

export class Broker {
  private readonly wishes = new Map<Listener, Wish>();
  private source: EventSource | null = null;
  private followed = "";
  private last = "";
  private pause = FIRST_PAUSE_MS;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private brokenSince = 0;

  set(listener: Listener, wish: Wish): void {
    this.wishes.set(listener, wish);
    if (this.source?.readyState === EventSource.OPEN) listener({ kind: "open" });
    else if (this.brokenSince > 0) listener({ kind: "broken", since: this.brokenSince });
    this.follow();
  }

  drop(listener: Listener): void {
    this.wishes.delete(listener);
    this.follow();
  }

  private follow(): void {
    const seen = [...this.wishes.values()].flatMap((wish) => (wish.watch ? [wish.watch] : []));
    if (seen.length === 0) {
      this.close();
      return;
    }
    const jobs = [...new Set(seen.flat())].sort();
    const query = jobs.map((job) => `job=${encodeURIComponent(job)}`).join("&");
    if (this.source && query === this.followed) return;
    this.close();
    this.followed = query;
    this.open();
  }

  private close(): void {
    clearTimeout(this.timer);
    this.source?.close();
    this.source = null;
  }

  private open(): void {
    const source = new EventSource(`/api/v1/events?${this.followed}&after=${encodeURIComponent(this.last)}`);
    this.source = source;
    source.onopen = () => {
      this.pause = FIRST_PAUSE_MS;
      this.brokenSince = 0;
      this.tell({ kind: "open" });
    };
    source.onerror = () => this.retry();
    for (const type of ["jobs", "look", "reset"] as const) {
      source.addEventListener(type, (event: MessageEvent<string>) => {
        if (event.lastEventId) this.last = event.lastEventId;
        this.tell({ kind: "event", type, data: JSON.parse(event.data) });
      });
    }
  }

  // The browser's own retrying gives up where the answer is an error.
  private retry(): void {
    this.close();
    this.brokenSince ||= Date.now();
    this.tell({ kind: "broken", since: this.brokenSince });
    this.timer = setTimeout(() => {
      if (!this.source && this.wishes.size > 0) this.open();
    }, this.pause);
    this.pause = Math.min(2 * this.pause, LONGEST_PAUSE_MS);
  }

  private tell(told: Told): void {
    for (const [listener, wish] of this.wishes) if (wish.watch) listener(told);
  }
}
