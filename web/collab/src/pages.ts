// The list of pages: what is there, who is there, and what waits to be reviewed.
import { ask, type PageRow, Refused, segment } from "./api";
import { safeColor } from "./cursors";
import { left, rename } from "./kept";
import { nameOf, renamed } from "./manage";
import { $, el, say } from "./dom";
import { t } from "./texts";

const PAUSE = 4_000;  // ms between looks at the list, while it can be seen
const MOST = 400;  // rows; the filter finds the others

export class Pages {
  rows: PageRow[] = [];
  private current = "";
  private drawn = "";
  private unsent = new Set<string>();  // pages with something that a closed tab could not send
  private readonly sought = new Set<string>();  // those of them that were not there, and asked about
  private names = "";

  /** `others` is told when there are other pages than before. */
  constructor(
    private readonly open: (page: string) => void, private readonly told: (rows: PageRow[]) => void, private readonly others: () => void,
  ) {
    $<HTMLInputElement>("filter").addEventListener("input", () => this.draw());
    $("page-list").addEventListener("click", (event) => {
      const link = (event.target as Element).closest("a");
      if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
      event.preventDefault();
      this.open(link.dataset["page"]!);
    });
    $("make-page").addEventListener("submit", (event) => { event.preventDefault(); void this.make(); });
    const look = async () => {
      if (!document.hidden) await this.look();
      setTimeout(look, PAUSE);
    };
    setTimeout(look, PAUSE);
    document.addEventListener("visibilitychange", () => { if (!document.hidden) void this.look(); });
  }

  private async make(): Promise<void> {
    const field = $<HTMLInputElement>("new-name"), trouble = $("new-trouble");
    const name = nameOf(field.value);
    trouble.hidden = true;
    try {
      await ask("POST", "pages", { name });
    } catch (error) {
      trouble.textContent = error instanceof Refused ? [error.message, error.hint].filter(Boolean).join("; ") : t("unreachable");
      trouble.hidden = false;
      return;
    }
    field.value = "";
    $<HTMLDetailsElement>("new-page").open = false;
    await this.look();
    this.open(name);
  }

  async look(): Promise<void> {
    try {
      this.rows = (await ask<{ pages: PageRow[] }>("GET", "pages")).pages;
      this.unsent = new Set((await left()).map(({ page }) => page));
    } catch {
      return;  // the link tells that there is no connection
    }
    this.told(this.rows);
    this.draw();
    const names = this.rows.map((each) => each.name).join("\n");
    if (names !== this.names || !names) this.others();
    this.names = names;
    await this.seek();
  }

  /** Pages that were renamed while something was left unsent on them: it is for those of the new name. */
  private async seek(): Promise<void> {
    const here = new Set(this.rows.map((each) => each.name));
    for (const page of [...this.unsent].filter((each) => !here.has(each) && !this.sought.has(each))) {
      this.sought.add(page);
      const now = await ask("GET", `pages/${segment(page)}`).then(() => null, renamed);
      if (now !== null) await rename(page, now);
    }
  }

  choose(page: string): void {
    this.current = page;
    this.draw();
  }

  draw(anew = false): void {
    const wanted = $<HTMLInputElement>("filter").value.trim().toLowerCase();
    const rows = this.rows.filter((each) => each.name.toLowerCase().includes(wanted));
    const state = JSON.stringify([rows, this.current, ...this.unsent]);
    if (state === this.drawn && !anew) return;
    this.drawn = state;
    const list = $("page-list");
    const focused = (document.activeElement as HTMLElement | null)?.closest<HTMLElement>("#page-list a")?.dataset["page"];
    const reads = this.rows.length > 0 && this.rows.every((each) => each.writable === false);
    $("read-only").hidden = !reads;
    list.replaceChildren(...rows.slice(0, MOST).map((each) => this.row(each, reads)));
    if (focused) [...list.querySelectorAll("a")].find((each) => each.dataset["page"] === focused)?.focus();
    const none = $("no-pages");
    none.hidden = rows.length > 0;
    say(none, this.rows.length ? "noPageFound" : "noPages");
  }

  /** `reads`: that none may be written in is said once, above them. */
  private row({ name, pending, people, writable }: PageRow, reads: boolean): HTMLLIElement {
    const cut = name.lastIndexOf("/") + 1;
    const here = those(people);
    const names = here.map((each) => each.name).join(", ");
    return el("li", {}, el("a", { href: address(name), "data-page": name, "aria-current": name === this.current && "page" },
      el("span", { class: "page-name" }, cut > 0 && el("span", { class: "folder" }, name.slice(0, cut)), el("bdi", {}, name.slice(cut))),
      el("span", { class: "page-facts" },
        !!here.length && el("span", { class: "page-people", title: t("here", { names }) },
          el("span", { class: "unseen" }, t("here", { names })), ...here.slice(0, 3).map(dot)),
        !!pending && el("span", { class: "badge" }, t("pendingCount", { n: pending })),
        this.unsent.has(name) && say(el("span", { class: "badge warn" }), "unsent"),
        writable === false && !reads && el("span", { class: "quiet" }, t("readOnly")))));
  }
}

export function address(page: string): string {
  return `/p/${page.split("/").map(encodeURIComponent).join("/")}`;
}

/** The first character as a person sees it. */
export function initial(name: string): string {
  const [first] = new Intl.Segmenter().segment(name.trim());
  return (first?.segment ?? "?").toUpperCase();
}

function those(people: unknown): { name: string; color: string }[] {
  if (!Array.isArray(people)) return [];
  return people.map((each: { name?: unknown; color?: unknown } | null) => ({ name: String(each?.name ?? "?"), color: safeColor(each?.color) }));
}

function dot({ name, color }: { name: string; color: string }): HTMLElement {
  const made = el("span", { class: "initial", "aria-hidden": "true" }, initial(name));
  made.style.setProperty("--peer", color);
  return made;
}
