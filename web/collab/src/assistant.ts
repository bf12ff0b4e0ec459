// The assistant's panel: what was asked, what it says while it says it, and what came of its edits.
import { ask, type PageRow, Refused, type Run, segment, type Suggestion } from "./api";
import { $, announce, button, el, say } from "./dom";
import { fragment } from "./preview";
import { follow, type Told } from "./stream";
import { t, why, type Text } from "./texts";

interface Around {
  page: () => string | null;
  selection: () => { start: number; end: number } | null;
  go: (page: string, suggestion: string) => void;
  trouble: (error: unknown) => void;
}

/** How runs end that were not simply done. */
const ENDS: Record<string, Text> = { cancelled: "cancelled", cut: "cut", refused: "refusedRun", failed: "failedRun" };

interface Candidate { line: number; text: string; score?: number }

export class Assistant {
  private readonly form = $<HTMLFormElement>("ask");
  private readonly message = $<HTMLTextAreaElement>("message");
  private readonly log = $("talk");
  private others: string[] = [];
  private running: AbortController | null = null;
  private readonly turns: Turn[] = [];

  constructor(private readonly around: Around) {
    this.form.addEventListener("submit", (event) => { event.preventDefault(); void this.send(); });
    this.message.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && !event.isComposing) { event.preventDefault(); void this.send(); }
    });
    this.message.addEventListener("input", () => this.fit());
    $("other-pages").addEventListener("change", () => this.count());
  }

  /** How much is selected, for who asks. */
  selected(characters: number): void {
    const hint = $("selected");
    hint.hidden = !characters;
    if (characters) say(hint, "selected", { n: characters });
  }

  /** What the server told of a page: what of each answer is accepted there by now. */
  shared(page: string, runs: Run[]): void {
    for (const run of runs) this.turns.find((each) => each.run === run.id)?.settled(page, run.reverted ? 0 : run.accepted ?? 0);
  }

  pages(rows: PageRow[]): void {
    const names = rows.filter((each) => each.writable !== false && each.name !== this.around.page()).map((each) => each.name);
    if (names.join("\n") === this.others.join("\n")) return;
    const chosen = new Set(this.chosen());
    this.others = names;
    $("other-pages").replaceChildren(...names.slice(0, 300).map((name) => {
      const box = el("input", { type: "checkbox", value: name });
      box.checked = chosen.has(name);
      return el("label", {}, box, el("bdi", {}, name));
    }));
    $("more-pages").hidden = !names.length;
    this.count();
  }

  private chosen(): string[] {
    return [...document.querySelectorAll<HTMLInputElement>("#other-pages input:checked")].map((each) => each.value);
  }

  private count(): void {
    const n = this.chosen().length;
    if (n) say($("more-pages-said"), "otherPages", { n });
    else say($("more-pages-said"), "morePages");
  }

  private fit(): void {
    this.message.style.height = "auto";
    this.message.style.height = `${Math.min(this.message.scrollHeight + 2, 220)}px`;
  }

  private async send(): Promise<void> {
    const page = this.around.page();
    const message = this.message.value.trim();
    if (!page || !message || this.running) return;
    const mode = new FormData(this.form).get("mode");
    const pages = this.chosen();
    const selection = this.around.selection();
    const turn = new Turn(page, message, mode === "auto", this.around);
    this.turns.push(turn);
    $("talk-empty").hidden = true;
    this.log.append(turn.root);
    turn.root.scrollIntoView({ block: "end" });
    this.message.value = "";
    this.fit();
    const stop = this.running = new AbortController();
    $("send").hidden = true;
    const halt = button("cancel", () => {
      if (turn.run) ask("POST", `runs/${segment(turn.run)}/cancel`).catch(() => stop.abort());
      else stop.abort();
      halt.disabled = true;
    }, { class: "stop" });
    $("send").after(halt);
    try {
      const body = { message, mode, ...(selection && { selection }), ...(pages.length && { pages }) };
      for await (const told of follow(`pages/${segment(page)}/assist`, body, stop.signal, () => turn.lost())) {
        const low = this.log.scrollHeight - this.log.scrollTop - this.log.clientHeight < 60;
        turn.hear(told);
        if (low) this.log.scrollTop = this.log.scrollHeight;
      }
    } catch (error) {
      if (stop.signal.aborted) turn.end({ status: "cancelled" });
      else {
        turn.fail(error);
        if (!turn.run && !this.message.value) this.message.value = message;  // nobody heard it: it need not be typed again
      }
    } finally {
      this.running = null;
      halt.remove();
      $("send").hidden = false;
    }
  }
}

/** One message and what came of it. */
class Turn {
  run = "";
  private failed = false;
  private text = "";
  private drawing = 0;
  private readonly answer = el("div", { class: "answer" });
  private readonly edits = el("ul", { class: "edits" });
  private readonly failures = el("div", { class: "failures" });
  private readonly accepted = new Map<string, number>();  // by page
  private readonly after = el("span", { class: "after" });
  private readonly state = say(el("p", { class: "state busy" }), "thinking");
  readonly root: HTMLElement;

  constructor(private readonly page: string, asked: string, private readonly auto: boolean, private readonly around: Around) {
    this.root = el("article", { class: "turn" }, el("p", { class: "asked" }, asked), this.answer, this.edits, this.failures, this.state);
  }

  hear({ event, data }: Told): void {
    if (event === "run") this.run = String(data["id"]);
    else if (event === "message") this.grow(String(data["text"] ?? ""));
    else if (event === "edit") this.edit(data["suggestion"] as Suggestion, String(data["page"] ?? this.page));
    else if (event === "failure") this.failure(data);
    else if (event === "done" && !this.failed) this.end(data);
    else if (event === "error") this.fail(data);
  }

  /** So many of its suggestions are accepted on a page: only then is there something to take back. */
  settled(page: string, accepted: number): void {
    if (accepted === (this.accepted.get(page) ?? 0)) return;
    this.accepted.set(page, accepted);
    const n = [...this.accepted.values()].reduce((sum, each) => sum + each, 0);
    this.after.replaceChildren(...(n && !this.auto ? [say(el("span", {}), "acceptedMany", { n }), this.undoing()] : []));
  }

  lost(): void {
    say(this.state, "resuming");
  }

  /** Text arrives in small pieces: draw it a few times a second. */
  private grow(more: string): void {
    this.text += more;
    say(this.state, "thinking");
    this.drawing ||= window.setTimeout(() => this.draw(), 80);
  }

  private draw(): void {
    clearTimeout(this.drawing);
    this.drawing = 0;
    this.answer.replaceChildren(fragment(this.text));
  }

  private edit(suggestion: Suggestion, page: string): void {
    const here = page === this.page;
    const place = button(here ? "editAt" : "editAtPage", () => this.around.go(page, suggestion.id), { class: "link" }, { n: suggestion.line, page });
    this.edits.append(el("li", {}, place));
  }

  private failure(data: Record<string, unknown>): void {
    const candidates = (Array.isArray(data["candidates"]) ? data["candidates"] : []) as Candidate[];
    this.failures.append(el("details", { class: "failure" },
      el("summary", {}, say(el("strong", {}), "failureTitle"), " ", say(el("span", {}), why(String(data["code"])))),
      el("div", {}, say(el("p", { class: "quiet" }), "failureWords"), el("p", {}, [data["message"], data["hint"]].filter(Boolean).join(" "))),
      candidates.length > 0 && el("div", {}, say(el("p", { class: "quiet" }), "closest"), ...candidates.slice(0, 5).map((each) =>
        el("figure", {}, say(el("figcaption", {}), "line", { n: each.line }), el("pre", {}, each.text))))));
    announce(t("failureTitle"));
  }

  end(data: Record<string, unknown>): void {
    this.draw();
    const { edits = 0, failures = 0 } = (data["counts"] ?? {}) as { edits?: number; failures?: number };
    const usage = (data["usage"] ?? {}) as { input_tokens?: number; output_tokens?: number };
    const status = String(data["status"] ?? "done");
    const values = { edits, failures };
    const ended = ENDS[status];
    const said = say(el("span", {}), ended ?? (failures ? "doneRun" : edits ? "doneEdits" : "doneNothing"), values);
    const cost = !!usage.input_tokens
      && say(el("span", { class: "quiet" }), "tokens", { input: usage.input_tokens, output: usage.output_tokens ?? 0 });
    this.closing(said, cost, this.after);
    announce(said.textContent);
  }

  /** What was accepted of an answer is taken back as a whole; runs that wrote at once have that above the text. */
  private undoing(): HTMLElement {
    return button("takeBack", async () => {
      try {
        await ask("POST", `runs/${segment(this.run)}/revert`);
        this.closing(say(el("span", {}), "reverted"));
        announce(t("reverted"));
      } catch (error) {
        this.around.trouble(error);
      }
    }, { class: "link", title: t("takeBackHow") });
  }

  fail(error: unknown): void {
    this.failed = true;
    this.draw();
    const { code, message, hint } = (error ?? {}) as { code?: string; message?: string; hint?: string };
    const said = error instanceof TypeError ? t("unreachable") : code === "no_model" ? t("noModel") : message ?? t("failedRun");
    this.closing(el("span", {}, said), !!hint && code !== "no_model" && el("span", { class: "quiet" }, hint));
    this.state.classList.add("alert");
    announce(said);
  }

  private closing(...said: (HTMLElement | false)[]): void {
    delete this.state.dataset["text"];
    this.state.className = "state";
    this.state.replaceChildren(...said.filter((each): each is HTMLElement => each !== false));
  }
}

export function reason(error: unknown): string {
  if (error instanceof Refused) return error.status === 429 ? t("tooFast") : [error.message, error.hint].filter(Boolean).join("; ");
  return t("unreachable");
}
