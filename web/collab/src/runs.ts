// The runs of the assistant that changed the text at once: each is kept, or taken back as a whole, on every page of it.
import { ask, Refused, type Run, segment } from "./api";
import { $, announce, button, el, say } from "./dom";
import { t } from "./texts";

const GOING = /^(running|started|streaming)$/;
const MOST = 3;  // that are shown at once

interface Around {
  page: string;
  writable: boolean;
  go: (page: string) => void;
  trouble: (error: unknown) => void;
}

export class Runs {
  private all: Run[] = [];
  private readonly settled = new Set<string>();

  constructor(private readonly around: Around) {}

  /** What the server told of this page. */
  shared(runs: Run[]): void {
    this.all = runs;
    this.draw();
  }

  draw(): void {
    const open = this.all.filter((each) => each.mode === "auto" && !GOING.test(each.status)
      && !each.reverted && !each.kept && (each.counts?.edits ?? 0) > 0 && !this.settled.has(each.id));
    const strip = $("runs");
    strip.hidden = !open.length || !this.around.writable;
    strip.replaceChildren(...open.slice(-MOST).map((each) => this.row(each)));
  }

  private row(run: Run): HTMLElement {
    const pages = Object.entries(run.pages ?? {});
    const several = pages.length > 1;
    const end = (how: "keep" | "revert") => () => void this.end(run.id, how);
    return el("div", { class: "run", role: "group", "data-run": run.id, "aria-label": t("autoRun", { n: run.counts?.edits ?? 0 }) },
      say(el("span", {}), "autoRun", { n: run.counts?.edits ?? 0 }),
      run.by && say(el("span", { class: "quiet" }), "by", { name: run.by }),
      several && el("ul", { class: "run-pages" }, pages.map(([page, n]) => el("li", {}, this.place(page), say(el("span", { class: "quiet" }), "times", { n })))),
      el("span", { class: "actions" },
        button("keep", end("keep"), { class: "main" }),
        several ? button("revertPages", end("revert"), {}, { n: pages.length }) : button("revert", end("revert"))));
  }

  private place(page: string): HTMLElement {
    if (page === this.around.page) return say(el("span", {}), "thisPage");
    return el("button", { type: "button", class: "link", onclick: () => this.around.go(page) }, el("bdi", {}, page));
  }

  private async end(run: string, how: "keep" | "revert"): Promise<void> {
    try {
      await ask("POST", `runs/${segment(run)}/${how}`);
      announce(t(how === "keep" ? "kept" : "reverted"));
    } catch (error) {
      this.around.trouble(error);
      if (!(error instanceof Refused) || !["not_revertable", "no_such_run"].includes(error.code)) return;
    }
    this.settled.add(run);
    this.draw();
  }
}
