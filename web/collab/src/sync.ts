// Keeps the editor's text and the shared one equal, as y-codemirror's own plugin does. But what others write in a line
// waits there while an input method composes in it: another text under its composition ends it, and leaves half of it.
// What a person types as a suggestion is in the editor's text only: the draft lies between the two.
import { Annotation, ChangeSet, type Extension, type Range, Text } from "@codemirror/state";
import { Decoration, type DecorationSet, type EditorView, ViewPlugin, type ViewUpdate, WidgetType } from "@codemirror/view";
import { ySync, ySyncAnnotation, type YSyncConfig, ySyncFacet } from "y-codemirror.next";
import type { Transaction, YTextEvent } from "yjs";
import { Draft, Steps, type Way } from "./draft";
import { el } from "./dom";

const LOOK = 40;  // ms between looks whether the composition is over
const LONGEST = 30_000;  // ms without a key of the composition after which nothing waits: on telephones it may never end

/** On a change of the editor's text that others made. */
export const fromOthers = Annotation.define<true>();

/** On a change of the editor's text that is typed as a suggestion. */
export const drafted = Annotation.define<true>();
/** Of what was typed into the shared text, and is put back: no suggestion, whatever is on now. */
export const direct = Annotation.define<true>();
const stepped = Annotation.define<Way>();

/** On a change of the editor's text while there is a draft: what it changes in the shared one. */
export const inShared = Annotation.define<ChangeSet | null>();

export class Sync {
  private readonly config: YSyncConfig;
  private waiting: ChangeSet | null = null;  // what others wrote and the editor does not have: over its text
  private looking = 0;
  private typed = 0;  // when this person wrote last, as Date.now() tells it
  private composed = 0;  // when a composition was seen last
  private heard: ChangeSet | null = null;  // what waits, over the shared text, while there is a draft
  private readonly steps = new Steps();
  draft: Draft | null = null;
  decorations: DecorationSet = Decoration.none;
  private stale = false;  // the decorations are those of before the composition

  constructor(private readonly view: EditorView, private readonly isOthers: (origin: unknown) => boolean) {
    this.config = view.state.facet(ySyncFacet);
    this.config.ytext.observe(this.hear);
  }

  destroy(): void {
    clearInterval(this.looking);
    this.config.ytext.unobserve(this.hear);
  }

  /** This person wrote: it goes into the shared text, behind what waits at the same place; or into the draft. */
  update(update: ViewUpdate): void {
    if (!update.docChanged) return this.decorate(update);
    if (update.transactions[0]?.annotation(ySyncAnnotation) === this.config) {
      this.steps.hear(update.changes);
      return this.decorate(update);
    }
    this.typed = Date.now();
    const isDrafted = update.transactions.some((each) => each.annotation(drafted));
    if (isDrafted) this.begin();
    let { changes } = update;
    if (this.waiting) {
      changes = update.changes.map(this.waiting);
      this.waiting = this.waiting.map(update.changes, true);
    }
    if (isDrafted) {
      this.draft!.write(changes);
      const way = update.transactions.map((each) => each.annotation(stepped)).find(Boolean);
      this.steps.add(update.changes.invert(update.startState.doc), way ?? null);
    } else this.write(changes);
    this.decorate(update);
  }

  private begin(): void {
    if (this.draft) return;
    this.draft = new Draft(this.config.ytext.length);
    this.heard = this.waiting;
  }

  private write(changes: ChangeSet): void {
    const { ytext } = this.config;
    ytext.doc!.transact(() => {
      let grown = 0;
      changes.iterChanges((from, to, _from, _to, insert) => {
        if (to > from) ytext.delete(from + grown, to - from);
        if (insert.length) ytext.insert(from + grown, insert.sliceString(0, insert.length, "\n"));
        grown += insert.length - (to - from);
      });
    }, this.config);
  }

  /** Bring in what waits. */
  readonly show = (): void => {
    clearInterval(this.looking);
    this.looking = 0;
    const { waiting: changes, heard } = this;
    this.waiting = this.heard = null;
    if (changes) this.bring(changes, heard, true);
  };

  private bring(changes: ChangeSet, shared: ChangeSet | null, others = false): void {
    const annotations = [ySyncAnnotation.of(this.config), ...(others ? [fromOthers.of(true)] : []), ...(this.draft ? [inShared.of(shared)] : [])];
    this.view.dispatch({ changes, annotations });
  }

  /** The shared text, as lines. */
  get shared(): Text {
    return Text.of(this.config.ytext.toString().split("\n"));
  }

  /** What the server has of the draft goes out of the editor's text: its suggestions show it, or it was settled. */
  drop(): void {
    this.show();
    if (!this.draft) return;
    const changes = this.draft.drop(this.shared);
    if (this.draft.isSent) this.steps.clear();
    this.bring(changes, null);
    if (this.draft.isSent) this.draft = null;
  }

  /** Undo, or redo, what was typed in the draft; tells whether there is a draft, or was. */
  step(way: Way): boolean {
    const changes = this.steps.take(way);
    if (changes) this.view.dispatch({ changes, annotations: [drafted.of(true), stepped.of(way)], scrollIntoView: true });
    return !!changes || !!this.draft && !this.draft.changes.empty;
  }

  /** Where a place of the editor's text is in the shared one, and the other way round. */
  toShared(place: number): number {
    const all = this.waiting ? this.waiting.mapPos(place) : place;
    return this.draft ? this.draft.changes.invertedDesc.mapPos(all) : all;
  }
  toEditor(place: number): number {
    let all = place;
    if (this.draft) {
      const { changes } = this.draft;
      all = changes.mapPos(Math.min(place, changes.length));
    }
    return this.waiting ? this.waiting.invertedDesc.mapPos(Math.min(all, this.waiting.newLength)) : all;
  }

  /** Mark what comes and show what goes; while something is composed, what is there only moves. */
  private decorate(update: ViewUpdate): void {
    if (!update.docChanged && !this.stale) return;
    this.stale = !!this.draft && (this.view.composing || !!this.waiting);
    if (this.stale) this.decorations = this.decorations.map(update.changes);
    else this.decorations = this.draft ? draw(this.draft.changes, this.shared) : Decoration.none;
  }

  private readonly hear = ({ delta }: YTextEvent, { origin }: Transaction): void => {
    if (origin === this.config) return;
    if (!this.isOthers(origin)) {
      this.show();
      const shared = changesOf(delta, this.draft?.changes.length ?? this.view.state.doc.length);
      return this.bring(this.draft?.hear(shared) ?? shared, shared);
    }
    const shared = changesOf(delta, this.draft?.changes.length ?? this.waiting?.newLength ?? this.view.state.doc.length);
    const changes = this.draft?.hear(shared) ?? shared;
    this.waiting = this.waiting?.compose(changes) ?? changes;
    if (this.draft) this.heard = this.heard?.compose(shared) ?? shared;
    if (!this.looking && !this.disturbs()) return this.show();
    this.composed = Date.now();
    this.looking ||= window.setInterval(this.look, LOOK);
  };

  private readonly look = (): void => {
    const now = Date.now();
    if (this.disturbs()) this.composed = now;
    if (now - this.composed >= LOOK || now - this.typed > LONGEST) this.show();
  };

  /** Whether what waits reaches into a line in which something is composed. */
  private disturbs(): boolean {
    const { view, waiting } = this;
    if (!view.composing || !waiting) return false;
    const { from, to } = view.state.doc.lineAt(view.state.selection.main.head);
    return waiting.touchesRange(from, to) !== false;
  }
}

function changesOf(delta: YTextEvent["delta"], length: number): ChangeSet {
  const changes: { from: number; to?: number; insert?: string }[] = [];
  let at = 0;
  for (const { insert, delete: gone, retain } of delta) {
    if (typeof insert === "string") changes.push({ from: at, insert });
    else if (gone) changes.push({ from: at, to: at + gone });
    at += gone ?? retain ?? 0;
  }
  return ChangeSet.of(changes, length, "\n");
}

class Gone extends WidgetType {
  constructor(readonly text: string) { super(); }
  override eq(other: Gone): boolean { return other.text === this.text; }
  override get lineBreaks(): number { return this.text.split("\n").length - 1; }
  toDOM(): HTMLElement { return el("del", { class: "gone", contenteditable: "false" }, this.text.replaceAll("\n", "↵\n")); }
}

function draw(changes: ChangeSet, shared: Text): DecorationSet {
  const drawn: Range<Decoration>[] = [];
  changes.iterChanges((from, to, start, end) => {
    if (to > from) drawn.push(Decoration.widget({ widget: new Gone(shared.sliceString(from, to)), side: end > start ? -1 : 1 }).range(start));
    if (end > start) drawn.push(Decoration.mark({ tagName: "ins", class: "typed" }).range(start, end));
  });
  return Decoration.set(drawn, true);
}

const plugin = ViewPlugin.define((view, isOthers: (origin: unknown) => boolean) => new Sync(view, isOthers), { decorations: (sync) => sync.decorations });

/** `extensions` of y-codemirror with this in place of its own; `isOthers` tells whose a change of the document is. */
export function sync(extensions: Extension, isOthers: (origin: unknown) => boolean): Extension {
  return (extensions as Extension[]).map((each) => (each === ySync ? plugin.of(isOthers) : each));
}

/** The plugin of an editor. */
export function syncOf(view: EditorView): Sync | null {
  return view.plugin(plugin);
}
