// Who wrote what: the passages of the text in the colours of their authors, when somebody wants to see them.
import { type Range, StateEffect, StateField } from "@codemirror/state";
import { Decoration, type DecorationSet, EditorView, keymap, type ViewUpdate } from "@codemirror/view";
import { ask, segment } from "./api";
import { $, announce, el, say } from "./dom";
import { syncOf } from "./sync";
import { t } from "./texts";

const SOON = 800;  // ms after a change until they are asked for again
const COLORS = 8;

interface Author { kind: "person" | "assistant" | "agent" | "file"; name: string; model: string }
interface Passage { start: number; end: number; author: number | null; text: string }
interface Told { authors: Author[]; passages: Passage[] }

const given = StateEffect.define<DecorationSet>();

const shown = StateField.define<DecorationSet>({
  create: () => Decoration.none,
  update: (before, change) => change.effects.find((each) => each.is(given))?.value ?? before.map(change.changes),
  provide: (field) => EditorView.decorations.from(field),
});

export class Authors {
  private view: EditorView | null = null;
  private on = false;
  private told: Told = { authors: [], passages: [] };
  private timer = 0;
  private closed = false;
  private here = "";

  constructor(private readonly page: string, private readonly trouble: (error: unknown) => void) {
    $("authors").onclick = () => this.toggle();
    $<HTMLAnchorElement>("authors-save").href = `/api/pages/${segment(page)}/authors`;
    $<HTMLAnchorElement>("authors-save").download = `${page.replace(/^.*\//, "")}.authors.json`;
    this.draw();
  }

  get extension() {
    return [
      shown,
      EditorView.updateListener.of((update) => this.updated(update)),
      keymap.of([{ key: "Mod-Alt-w", run: () => { this.toggle(); return true; } }]),
    ];
  }

  attach(view: EditorView): void {
    this.view = view;
  }

  close(): void {
    this.closed = true;
    clearTimeout(this.timer);
    $("authors-shown").hidden = true;
  }

  /** Say it in another language. */
  draw(): void {
    $("authors").setAttribute("aria-pressed", String(this.on));
    $("authors-shown").hidden = !this.on;
    $("authors-list").replaceChildren(...this.told.authors.map((each, at) => el("li", { class: `author author-${at % COLORS}` }, name(each))),
      ...(this.told.passages.some((each) => each.author === null) ? [say(el("li", { class: "author" }), "authorUnknown")] : []));
  }

  private toggle(): void {
    this.on = !this.on;
    if (this.on) void this.look(true);
    else {
      clearTimeout(this.timer);
      this.view?.dispatch({ effects: given.of(Decoration.none) });
      announce(t("authorsOff"));
    }
    this.draw();
  }

  private updated({ docChanged, selectionSet }: ViewUpdate): void {
    if (!this.on) return;
    if (docChanged) {
      clearTimeout(this.timer);
      this.timer = window.setTimeout(() => void this.look(), SOON);
    }
    if (selectionSet || docChanged) this.tell();
  }

  private async look(first = false): Promise<void> {
    try {
      const told = await ask<Told>("GET", `pages/${segment(this.page)}/authors`);
      if (!this.on || this.closed || !this.view) return;
      this.told = told;
      this.view.dispatch({ effects: given.of(this.mark(this.view)) });
      this.draw();
      if (first) announce(t("authorsOn", { names: told.authors.map(name).join(", ") }));
      this.tell();
    } catch (error) {
      this.trouble(error);
    }
  }

  private mark(view: EditorView): DecorationSet {
    const sync = syncOf(view);
    const drawn: Range<Decoration>[] = [];
    for (const { start, end, author } of this.told.passages) {
      if (author === null) continue;
      const [from, to] = [start, end].map((each) => Math.min(sync?.toEditor(each) ?? each, view.state.doc.length)) as [number, number];
      if (to > from) drawn.push(Decoration.mark({ class: `author author-${author % COLORS}`, attributes: { title: name(this.told.authors[author]!) } }).range(from, to));
    }
    return Decoration.set(drawn, true);
  }

  /** Tell whose the passage is that the caret is in. */
  private tell(): void {
    if (!this.view) return;
    const { head } = this.view.state.selection.main;
    const place = syncOf(this.view)?.toShared(head) ?? head;
    const found = this.told.passages.find(({ start, end }) => start <= place && place < end) ?? this.told.passages.at(-1);
    const author = found && (found.author === null ? t("authorUnknown") : name(this.told.authors[found.author]!));
    if (!author || author === this.here) return;
    this.here = author;
    $("authors-here").textContent = author;
  }
}

function name({ kind, name: called, model }: Author): string {
  if (kind === "file") return t("authorFile");
  return model ? `${called} (${model})` : called;
}
