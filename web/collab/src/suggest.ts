// Suggesting: what a person types becomes suggestions in their name. The server has them a moment later, and once the
// caret is elsewhere they are shown as everybody's are.
import { type ChangeSet, EditorState, type Extension, type Text } from "@codemirror/state";
import { EditorView, keymap, type ViewUpdate } from "@codemirror/view";
import { ySyncAnnotation } from "y-codemirror.next";
import { ask, Refused, segment, type Suggestion } from "./api";
import { $, announce } from "./dom";
import { direct, drafted, syncOf } from "./sync";
import { t } from "./texts";
import type { PersonalUndo } from "./undo";

const SOON = 600;  // ms without a key after which the server is told
const AGAIN = 1_000;  // ms until it is told again what it could not be told
const AROUND = 40;  // characters around a change that tell where it belongs
const KEPT = 60_000;  // bytes that a browser sends for a page that is gone
const KEY = "kakite.suggesting";

interface Around {
  page: string;
  writable: boolean;
  name: () => string;
  undo: PersonalUndo;
  trouble: (error: unknown) => void;
  changed: () => void;  // what the server has
  shown: () => void;  // what is to be shown as suggestions
  lost: (passages: string[]) => void;  // what has no place
}

export class Suggesting {
  private view: EditorView | null = null;
  private on: boolean;
  private run = "";
  private ids: string[] = [];  // those of the run that the server told
  private readonly seen = new Set<string>();  // those that it showed to everybody
  private all: Suggestion[] = [];
  private sending: Promise<void> | null = null;
  private leaving = false;  // the caret is elsewhere, or suggesting is to end
  private timer = 0;
  private over = false;

  constructor(private readonly around: Around) {
    this.on = around.writable && sessionStorage.getItem(KEY) === "on";
    around.undo.draft = (way) => (this.view && syncOf(this.view)?.step(way)) ?? false;
    $("suggesting").onclick = () => void this.toggle();
    $("suggesting").hidden = !around.writable;
    addEventListener("pagehide", this.now);
    this.draw();
  }

  get extension(): Extension {
    return [
      EditorState.transactionExtender.of((each) =>
        (this.on || this.draft) && each.docChanged && !each.annotation(ySyncAnnotation) && !each.annotation(direct) ? { annotations: drafted.of(true) } : null),
      EditorView.updateListener.of((update) => this.updated(update)),
      EditorView.contentAttributes.of(() => (this.on ? { "aria-describedby": "suggesting-on" } : null)),
      keymap.of([
        { key: "Mod-Shift-e", run: () => { void this.toggle(); return true; } },
        { key: "Escape", run: () => { if (!this.draft) return false; this.leave(); return true; } },
      ]),
    ];
  }

  attach(view: EditorView): void {
    this.view = view;
  }

  /** Whether the server has all that was typed. */
  get isSent(): boolean {
    return !this.draft || (this.draft.isSent && !this.sending);
  }

  /** What the server told: returns what is to be shown, without what is being typed here. */
  shared(suggestions: Suggestion[]): Suggestion[] {
    this.all = suggestions;
    this.look();
    return this.shown;
  }

  get shown(): Suggestion[] {
    return this.run ? this.all.filter(({ run }) => run !== `typed-${this.run}`) : this.all;
  }

  close(): void {
    this.now();
    this.over = true;
    clearTimeout(this.timer);
    removeEventListener("pagehide", this.now);
  }

  private get draft() {
    return (this.view && syncOf(this.view)?.draft) ?? null;
  }

  private async toggle(): Promise<void> {
    if (!this.around.writable) return;
    if (this.on && this.draft) {
      this.leaving = true;
      await this.send();
      if (this.draft && !this.draft.isSent) return this.around.trouble(t("suggestingWaits"));
      this.fold();
    }
    this.on = !this.on;
    sessionStorage.setItem(KEY, this.on ? "on" : "off");
    this.draw();
    announce(t(this.on ? "suggestingOn" : "suggestingOff"));
    this.view?.dispatch({});  // the editor tells it, too
    this.view?.focus();
  }

  private draw(): void {
    $("suggesting").setAttribute("aria-pressed", String(this.on));
    document.body.dataset["suggesting"] = this.on ? "on" : "off";
    $("suggesting-on").hidden = !this.on;
  }

  private updated({ view, docChanged, selectionSet, focusChanged, transactions }: ViewUpdate): void {
    if (!this.draft) return;
    if (transactions.some((each) => each.annotation(drafted))) {
      this.leaving = false;
      this.soon(SOON);
      this.around.changed();
    } else if (focusChanged && !view.hasFocus) this.leave();
    else if (selectionSet && !docChanged && !this.isInside(view)) this.leave();
  }

  /** Whether the caret is in a line in which something is being typed. */
  private isInside({ state: { doc, selection } }: EditorView): boolean {
    let inside = false;
    const { from, to } = selection.main;
    this.draft!.changes.iterChangedRanges((_from, _to, start, end) => {
      const line = { from: doc.lineAt(Math.min(start, doc.length)).from, to: doc.lineAt(Math.min(end, doc.length)).to };
      inside ||= from <= line.to && line.from <= to;
    });
    return inside;
  }

  /** The person is done with these: once the server shows them to everybody, they are as all others are. */
  private leave(): void {
    this.leaving = true;
    this.soon(0);
  }

  private soon(wait: number): void {
    clearTimeout(this.timer);
    this.timer = window.setTimeout(() => void this.send(), wait);
  }

  /** Tell the server. Once more does no harm: it is told all of the run. */
  private async send(): Promise<void> {
    while (this.sending) await this.sending;
    clearTimeout(this.timer);
    const { view, draft } = this;
    if (!view || !draft || this.over) return;
    if (view.composing) return this.soon(SOON);
    view.dispatch({});  // a composition is over: what it wrote is marked
    if (!draft.isSent) {
      this.sending = this.put(draft);
      await this.sending;
      this.sending = null;
      this.around.changed();
    }
    this.look();
  }

  private async put(draft: NonNullable<Suggesting["draft"]>): Promise<void> {
    this.run ||= random();
    const changes = hunks(draft.send(), syncOf(this.view!)!.shared);
    try {
      const { suggestions } = await this.ask(changes);
      draft.answered(true);
      this.ids = suggestions.map(({ id }) => id);
    } catch (error) {
      draft.answered(false);
      if (this.over) return;
      if (error instanceof Refused && error.code === "settled") this.settled();
      else if (error instanceof Refused && error.status < 500 && error.code !== "changed") this.around.trouble(error);
      else this.soon(AGAIN);
    }
  }

  private ask(changes: Hunk[], keepalive = false): Promise<{ suggestions: Suggestion[] }> {
    return ask("PUT", `pages/${segment(this.around.page)}/suggestions/typed/${this.run}`, { changes, name: this.around.name() }, keepalive);
  }

  /** Look whether somebody has decided about some of these, and whether they can be shown as all others are. */
  private look(): void {
    if (!this.draft || this.sending || !this.view) return;
    for (const { id } of this.all) if (this.ids.includes(id)) this.seen.add(id);
    if (this.ids.some((id) => this.seen.has(id) && !this.all.some((each) => each.id === id))) return this.settled();
    if (this.leaving && this.draft.isSent && !this.view.composing && this.ids.every((id) => this.seen.has(id))) this.fold();
  }

  private settled(): void {
    if (this.view?.composing) return this.soon(SOON);  // another text under a composition breaks it
    const left = this.ids.filter((id) => this.all.some((each) => each.id === id));
    this.end(left);
    if (this.draft) this.soon(0);
    announce(t("suggestingSettled"));
  }

  private fold(): void {
    this.leaving = false;
    this.end(this.ids);
  }

  private end(ids: string[]): void {
    if (ids.length) this.around.undo.add("suggest", Promise.resolve(ids));
    this.run = "";
    this.ids = [];
    this.seen.clear();
    if (this.view) syncOf(this.view)?.drop();
    this.around.shown();
  }

  /** This tab, or this page in it, is about to go: what the server does not have is sent at once. */
  private readonly now = (): void => {
    const { draft } = this;
    if (!this.view || !draft || this.isSent || this.over) return;
    this.run ||= random();
    const changes = hunks(draft.changes, syncOf(this.view)!.shared);
    this.ask(changes, JSON.stringify(changes).length < KEPT).catch(() => this.around.lost(changes.map(({ insert }) => insert).filter((each) => each.trim())));
  };
}

function random(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(8)), (each) => each.toString(16).padStart(2, "0")).join("");
}

interface Hunk { start: number; before: string; words: string; after: string; insert: string }

/** Changes of a text, each with what stands around it. */
function hunks(changes: ChangeSet, text: Text): Hunk[] {
  const made: Hunk[] = [];
  changes.iterChanges((from, to, _from, _to, insert) => made.push({
    start: from,
    before: text.sliceString(Math.max(0, from - AROUND), from).replace(/^[\uDC00-\uDFFF]/, ""),
    words: text.sliceString(from, to),
    after: text.sliceString(to, to + AROUND).replace(/[\uD800-\uDBFF]$/, ""),
    insert: insert.toString(),
  }));
  return made;
}
