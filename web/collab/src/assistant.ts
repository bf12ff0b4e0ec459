// The assistant's panel: what people asked on this page, what it says while it says it, and what came of its edits.
import { ask, type Asked, type PageRow, Refused, type Run, segment, type Shared, type Suggestion } from "./api";
import { $, announce, button, el, say } from "./dom";
import { fragment } from "./preview";
import { follow, type Told } from "./stream";
import { t, why, type Text } from "./texts";

interface Around {
  name: () => string;
  page: () => string | null;
  selection: () => { start: number; end: number } | null;
  go: (page: string, suggestion: string) => void;
  trouble: (error: unknown) => void;
}

/** How runs end that were not simply done. */
const ENDS: Record<string, Text> = { cancelled: "cancelled", cut: "cut", refused: "refusedRun", failed: "failedRun", interrupted: "interrupted" };
const AGAIN = 1_000;  // ms until the conversation is asked for again that could not be had

interface Candidate { line: number; text: string; score?: number }

export class Assistant {
  private readonly form = $<HTMLFormElement>("ask");
  private readonly message = $<HTMLTextAreaElement>("message");
  private readonly log = $("talk");
  private others: string[] = [];
  private shownPage: string | null = null;
  private turns: Turn[] = [];
  private runs: Run[] = [];
  private version = "";  // of the conversation that is shown
  private wanted = "";  // as the server told it last
  private fetching = false;
  private posting = 0;  // requests whose runs have no id yet: until then the server's turns cannot be told from ours

  constructor(private readonly around: Around) {
    this.form.addEventListener("submit", (event) => { event.preventDefault(); void this.send(); });
    this.message.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && !event.isComposing) { event.preventDefault(); void this.send(); }
    });
    this.message.addEventListener("input", () => this.fit());
    $("other-pages").addEventListener("change", () => this.count());
    $("clear-talk").addEventListener("click", () => void this.clear());
  }

  /** Another page is open. What was asked on the last one goes on there. */
  show(page: string | null): void {
    if (page === this.shownPage) return;
    this.shownPage = page;
    for (const turn of this.turns) turn.leave();
    this.turns = [];
    this.runs = [];
    this.version = this.wanted = "";
    this.draw();
  }

  /** How much is selected, for who asks. */
  selected(characters: number): void {
    const hint = $("selected");
    hint.hidden = !characters;
    if (characters) say(hint, "selected", { n: characters });
  }

  /** What the server told of a page: what of each answer is accepted there by now, and whether the conversation has news. */
  shared(page: string, { runs, conversation }: Shared): void {
    this.runs = runs;
    this.settle(page);
    if (conversation !== undefined) this.wanted = conversation;
    void this.sync();
  }

  private settle(page: string): void {
    for (const run of this.runs) this.turns.find((each) => each.run === run.id)?.settled(page, run);
  }

  /** Show the conversation as the server has it. */
  private async sync(): Promise<void> {
    const { shownPage: page, wanted } = this;
    if (page === null || wanted === this.version || this.fetching || this.posting) return;
    this.fetching = true;
    let failed = false;
    try {
      const told = await ask<{ version: string; turns: Asked[] }>("GET", `pages/${segment(page)}/conversation`);
      if (page === this.shownPage && !this.posting) {
        this.version = told.version;
        if (this.wanted === wanted) this.wanted = told.version;
        this.take(page, told.turns);
      }
    } catch {
      failed = true;
    } finally {
      this.fetching = false;
    }
    if (failed) setTimeout(() => void this.sync(), AGAIN);
    else void this.sync();
  }

  private take(page: string, told: Asked[]): void {
    const known = new Map(this.turns.map((each) => [each.run, each]));
    const next = told.map((each) => {
      const turn = known.get(each.id) ?? new Turn(page, each, this.around);
      turn.load(each);
      return turn;
    });
    const stays = new Set(next);
    for (const turn of this.turns) if (turn.run && !stays.has(turn)) turn.leave();
    this.turns = [...next, ...this.turns.filter((each) => !each.run)];
    this.settle(page);
    this.draw();
    for (const turn of next) if (turn.isWaiting) void this.join(turn);
  }

  private draw(): void {
    const roots = this.turns.map((each) => each.root);
    const shown = [...this.log.querySelectorAll(".turn")];
    if (roots.length !== shown.length || roots.some((each, at) => each !== shown[at])) {
      for (const each of shown) each.remove();
      this.log.append(...roots);
      this.log.scrollTop = this.log.scrollHeight;
    }
    $("talk-empty").hidden = roots.length > 0;
    $("clear-talk").hidden = !this.turns.some((each) => each.run);
  }

  private async clear(): Promise<void> {
    if (this.shownPage === null || !confirm(t("clearTalkSure"))) return;
    await ask("POST", `pages/${segment(this.shownPage)}/conversation/clear`).catch(this.around.trouble);
  }

  /** Hear an answer that was under way when we came, or that somebody else asked for. */
  private async join(turn: Turn): Promise<void> {
    try {
      await this.hear(turn, follow("", null, turn.join(), () => turn.lost(), turn.run));
    } catch { /* how it ended is in the conversation */ }
  }

  private async hear(turn: Turn, events: AsyncGenerator<Told>): Promise<void> {
    for await (const told of events) {
      const low = this.log.scrollHeight - this.log.scrollTop - this.log.clientHeight < 60;
      turn.hear(told);
      if (low) this.log.scrollTop = this.log.scrollHeight;
      if (told.event === "run") this.begun(turn);
    }
  }

  private begun(turn: Turn): void {
    if (!turn.isPosted) return;
    turn.isPosted = false;
    this.posting -= 1;
    $<HTMLButtonElement>("send").disabled = this.posting > 0;
    this.draw();
    void this.sync();
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
    if (!page || !message || this.posting) return;
    const mode = new FormData(this.form).get("mode") === "auto" ? "auto" : "review";
    const pages = this.chosen();
    const selection = this.around.selection();
    const name = this.around.name();
    const turn = new Turn(page, { id: "", by: name, message, mode }, this.around);
    this.turns.push(turn);
    this.draw();
    turn.root.scrollIntoView({ block: "end" });
    this.message.value = "";
    this.fit();
    this.posting += 1;
    turn.isPosted = true;
    $<HTMLButtonElement>("send").disabled = true;
    const signal = turn.join();
    turn.isOurs = true;
    try {
      const body = { message, mode, name, ...(selection && { selection }), ...(pages.length && { pages }) };
      await this.hear(turn, follow(`pages/${segment(page)}/assist`, body, signal, () => turn.lost()));
    } catch (error) {
      if (signal.aborted) turn.end({ status: "cancelled" });
      else {
        turn.fail(error);
        if (!turn.run && !this.message.value) this.message.value = message;  // nobody heard it: it need not be typed again
      }
    } finally {
      this.begun(turn);
    }
  }
}

/** One message and what came of it. */
class Turn {
  run: string;
  isOurs = false;  // this tab asked, and hears of it also while another page is open
  isPosted = false;
  private readonly auto: boolean;
  private over = false;
  private quiet = false;  // what ended before is not announced
  private hearing: AbortController | null = null;
  private failed = false;
  private text = "";
  private drawing = 0;
  private readonly answer = el("div", { class: "answer" });
  private readonly edits = el("ul", { class: "edits" });
  private readonly failures = el("div", { class: "failures" });
  private readonly accepted = new Map<string, number>();  // by page
  private readonly after = el("span", { class: "after" });
  private readonly halt = button("cancel", () => this.stop(), { class: "stop" });
  private readonly state = say(el("p", { class: "state busy" }), "thinking");
  readonly root: HTMLElement;

  constructor(private readonly page: string, asked: Pick<Asked, "id" | "by" | "message" | "mode">, private readonly around: Around) {
    this.run = asked.id;
    this.auto = asked.mode === "auto";
    this.root = el("article", { class: "turn" }, asked.by && el("p", { class: "who" }, el("bdi", {}, asked.by)),
      el("p", { class: "asked" }, asked.message), this.answer, this.edits, this.failures, this.state, this.halt);
  }

  /** Whether it goes on and nobody here hears of it. */
  get isWaiting(): boolean {
    return !this.over && !this.hearing;
  }

  join(): AbortSignal {
    this.hearing = new AbortController();
    return this.hearing.signal;
  }

  /** It is not shown any more. */
  leave(): void {
    this.over ||= !this.isOurs;
    if (!this.isOurs) this.hearing?.abort();
  }

  /** Show it as the server has it, unless it goes on: then we hear of it. */
  load({ status, text, events }: Asked): void {
    if (this.over || status === "running") return;
    this.quiet = true;
    this.text = text;
    this.edits.replaceChildren();
    this.failures.replaceChildren();
    for (const each of events) this.hear({ ...each, id: "" });
    if (!this.over) this.end({ status });
    this.quiet = false;
  }

  private stop(): void {
    this.halt.disabled = true;
    if (!this.run) return this.hearing?.abort();
    ask("POST", `runs/${segment(this.run)}/cancel`).catch((error: unknown) => { this.halt.disabled = false; this.around.trouble(error); });
  }

  hear({ event, data }: Told): void {
    if (this.over) return;
    if (event === "run") this.run = String(data["id"]);
    else if (event === "message") this.grow(String(data["text"] ?? ""));
    else if (event === "edit") this.edit(data["suggestion"] as Suggestion, String(data["page"] ?? this.page));
    else if (event === "failure") this.failure(data);
    else if (event === "done") this.end(data);
    else if (event === "error") this.fail(data);
  }

  /** So many of its suggestions are accepted on a page: only then is there something to take back. */
  settled(page: string, run: Run): void {
    const accepted = run.reverted ? 0 : run.accepted ?? 0;
    if (run.reverted && this.over && !this.auto) this.closing(say(el("span", {}), "reverted"));
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
    if (!this.quiet) announce(t("failureTitle"));
  }

  end(data: Record<string, unknown>): void {
    this.over = true;
    if (this.failed) return;
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
    if (!this.quiet) announce(said.textContent);
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
    if (!this.run) this.over = true;
    if (!this.quiet) announce(said);
  }

  private closing(...said: (HTMLElement | false)[]): void {
    delete this.state.dataset["text"];
    this.state.className = "state";
    this.halt.remove();
    this.state.replaceChildren(...said.filter((each): each is HTMLElement => each !== false));
  }
}

export function reason(error: unknown): string {
  if (error instanceof Refused) return error.status === 429 ? t("tooFast") : [error.message, error.hint].filter(Boolean).join("; ");
  return t("unreachable");
}
