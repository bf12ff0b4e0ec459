// Renaming a page, removing it, and bringing it back.
import { ask, Refused, segment } from "./api";
import { reason } from "./assistant";
import { $, el, say, sign } from "./dom";
import { type Text, t } from "./texts";

const WHY: Record<string, Text> = { file_exists: "nameTaken", bad_path: "nameBad", bad_request: "nameBad", not_allowed: "notAllowed", busy: "pageBusy" };

function why(error: unknown): string {
  const text = error instanceof Refused ? WHY[error.code] : undefined;
  return text ? t(text) : reason(error);
}

/** What somebody typed as the name of a page; without an ending it gets one. */
export function nameOf(typed: string, ending = ".md"): string {
  const wanted = typed.trim();
  return /\.[^./]+$/.test(wanted) ? wanted : wanted + ending;
}

/** What the page is called now, if that is why the server does not find it. */
export function renamed(error: unknown): string | null {
  const name = error instanceof Refused ? error.data["renamed"] : null;
  return typeof name === "string" ? name : null;
}

export const isRemoved = (error: unknown): boolean => error instanceof Refused && "removed" in error.data;

export const bringBack = (page: string) => ask("POST", `pages/${segment(page)}/restore`);

/** The dialog. Whoever is on the page learns from the server what became of it, this tab too. */
export class Management {
  private page = "";
  private readonly dialog = $<HTMLDialogElement>("manage");

  constructor(private readonly current: () => string | null, private readonly done: () => void) {
    $("manage-page").addEventListener("click", () => this.open());
    $("manage-close").addEventListener("click", () => this.dialog.close());
    this.dialog.addEventListener("click", (event) => { if (event.target === this.dialog) this.dialog.close(); });
    $("rename").addEventListener("submit", (event) => { event.preventDefault(); void this.rename(); });
    $("remove-page").addEventListener("click", () => void this.remove());
  }

  private open(): void {
    const page = this.current();
    if (page === null) return;
    this.page = page;
    $("manage-trouble").hidden = true;
    $<HTMLInputElement>("rename-name").value = page;
    this.dialog.showModal();
  }

  private async rename(): Promise<void> {
    const name = nameOf($<HTMLInputElement>("rename-name").value, /\.[^./]+$/.exec(this.page)?.[0] ?? "");
    if (name !== this.page) await this.try("rename", { name });
    else this.dialog.close();
  }

  private async remove(): Promise<void> {
    if (confirm(t("removeSure", { page: this.page }))) await this.try("remove", {});
  }

  private async try(what: "rename" | "remove", body: object): Promise<void> {
    const trouble = $("manage-trouble");
    trouble.hidden = true;
    try {
      await ask("POST", `pages/${segment(this.page)}/${what}`, body);
    } catch (error) {
      trouble.textContent = why(error);
      trouble.hidden = false;
      return;
    }
    this.dialog.close();
    this.done();
  }
}

/** The list of removed pages, for those who may write. */
export class Removed {
  constructor(private readonly opened: (page: string) => void, private readonly trouble: (error: unknown) => void) {}

  async look(): Promise<void> {
    const { pages } = await ask<{ pages: { name: string; by: string }[] }>("GET", "removed");
    $("removed").hidden = !pages.length;
    say($("removed-count"), "removedPages", { n: pages.length });
    $("removed-list").replaceChildren(...pages.map(({ name, by }) => el("li", {},
      el("span", { class: "page-name" }, el("bdi", {}, name), by && say(el("span", { class: "quiet" }), "by", { name: by })),
      sign("↺", "bringBackPage", () => void this.bring(name), {}, { page: name }))));
  }

  private async bring(page: string): Promise<void> {
    try {
      await bringBack(page);
      this.opened(page);
    } catch (error) {
      this.trouble(error);
    }
  }
}
