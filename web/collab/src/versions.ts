// Earlier versions of a page: when they were written and by whom, how the page differs from them, and the way back.
import { ask, Refused, segment } from "./api";
import { $, announce, button, el, say } from "./dom";
import { change } from "./review";
import { spoken, t } from "./texts";

const MOST = 60;  // differences that are shown

interface Version { id: string; name: string; by: string; time: number; run: string }
interface Compared { differences: { line: number; now: string; then: string }[] }

export class Versions {
  private page = "";
  private versions: Version[] = [];
  private chosen: Version | null = null;
  private readonly dialog = $<HTMLDialogElement>("versions");

  constructor(private readonly current: () => string | null, private readonly restored: () => void) {
    $("history").addEventListener("click", () => void this.open());
    $("versions-close").addEventListener("click", () => this.dialog.close());
    this.dialog.addEventListener("click", (event) => { if (event.target === this.dialog) this.dialog.close(); });
    $("name-version").addEventListener("submit", (event) => { event.preventDefault(); void this.name(); });
  }

  private async open(): Promise<void> {
    const page = this.current();
    if (page === null) return;
    this.page = page;
    this.chosen = null;
    this.versions = [];
    this.draw();
    this.dialog.showModal();
    await this.look();
  }

  /** Ask the server; what it refuses is shown in the dialog, which hides the page. */
  private async try<T>(work: () => Promise<T>): Promise<T | null> {
    const trouble = $("versions-trouble");
    trouble.hidden = true;
    try {
      return await work();
    } catch (error) {
      trouble.textContent = error instanceof Refused ? [error.message, error.hint].filter(Boolean).join("; ") : t("unreachable");
      trouble.hidden = false;
      return null;
    }
  }

  private async look(): Promise<void> {
    const told = await this.try(() => ask<{ versions: Version[] }>("GET", `pages/${segment(this.page)}/versions`));
    if (!told) return;
    this.versions = told.versions;
    this.draw();
  }

  private async name(): Promise<void> {
    const field = $<HTMLInputElement>("version-name");
    if (!field.value.trim()) return;
    if (!await this.try(() => ask("POST", `pages/${segment(this.page)}/versions`, { name: field.value }))) return;
    field.value = "";
    announce(t("versionNamed"));
    await this.look();
  }

  private async choose(version: Version): Promise<void> {
    this.chosen = version;
    this.draw();
    const told = await this.try(() => ask<Compared>("GET", `pages/${segment(this.page)}/versions/${segment(version.id)}`));
    if (told && this.chosen === version) this.show(version, told);
  }

  private draw(): void {
    say($("no-versions"), "noVersions").hidden = this.versions.length > 0;
    $("version-list").replaceChildren(...this.versions.map((each) => this.row(each)));
    if (!this.chosen) $("version-shown").replaceChildren();
  }

  private row(version: Version): HTMLLIElement {
    const when = new Date(version.time * 1000);
    const shown = new Intl.DateTimeFormat(spoken(), { dateStyle: "medium", timeStyle: "short" }).format(when);
    return el("li", {}, el("button", {
      type: "button", class: "version", "aria-pressed": String(version.id === this.chosen?.id), onclick: () => void this.choose(version),
    }, version.name && el("strong", {}, el("bdi", {}, version.name)), el("time", { datetime: when.toISOString() }, shown),
      version.by ? say(el("span", { class: "quiet" }), "by", { name: version.by }) : say(el("span", { class: "quiet" }), "fromOutside")));
  }

  private show(version: Version, { differences }: Compared): void {
    const restore = (mode: "review" | "auto") => () => void this.restore(version, mode);
    const more = differences.length - MOST;
    $("version-shown").replaceChildren(
      ...(differences.length ? [] : [say(el("p", { class: "hint" }), "versionSame")]),
      el("ol", {}, differences.slice(0, MOST).map(({ line, now, then }) =>
        el("li", {}, say(el("span", { class: "quiet" }), "line", { n: line }), el("p", { class: "change" }, ...change(now, then))))),
      ...(more > 0 ? [say(el("p", { class: "quiet" }), "moreDifferences", { n: more })] : []),
      el("p", { class: "actions" },
        differences.length > 0 && button("restoreReview", restore("review"), { class: "main" }),
        differences.length > 0 && button("restoreAuto", restore("auto")),
        version.name && button("removeVersion", () => void this.remove(version))));
  }

  private async restore(version: Version, mode: "review" | "auto"): Promise<void> {
    const done = await this.try(() => ask("POST", `pages/${segment(this.page)}/versions/${segment(version.id)}/restore`, { mode }));
    if (!done) return;
    this.dialog.close();
    announce(t(mode === "auto" ? "restored" : "restoreSuggested"));
    this.restored();
  }

  private async remove(version: Version): Promise<void> {
    if (!await this.try(() => ask("POST", `pages/${segment(this.page)}/versions/${segment(version.id)}/remove`))) return;
    this.chosen = null;
    await this.look();
  }
}
