// Keeps the editor's text and the shared one equal, as y-codemirror's own plugin does. But what others write in a line
// waits there while an input method composes in it: another text under its composition ends it, and leaves half of it.
import { Annotation, ChangeSet, type Extension } from "@codemirror/state";
import { type EditorView, ViewPlugin, type ViewUpdate } from "@codemirror/view";
import { ySync, ySyncAnnotation, type YSyncConfig, ySyncFacet } from "y-codemirror.next";
import type { Transaction, YTextEvent } from "yjs";

const LOOK = 40;  // ms between looks whether the composition is over
const LONGEST = 30_000;  // ms without a key of the composition after which nothing waits: on telephones it may never end

/** On a change of the editor's text that others made. */
export const fromOthers = Annotation.define<true>();

export class Sync {
  private readonly config: YSyncConfig;
  private waiting: ChangeSet | null = null;  // what others wrote and the editor does not have: over its text
  private looking = 0;
  private typed = 0;  // when this person wrote last, as Date.now() tells it
  private composed = 0;  // when a composition was seen last

  constructor(private readonly view: EditorView, private readonly isOthers: (origin: unknown) => boolean) {
    this.config = view.state.facet(ySyncFacet);
    this.config.ytext.observe(this.hear);
  }

  destroy(): void {
    clearInterval(this.looking);
    this.config.ytext.unobserve(this.hear);
  }

  /** This person wrote: it goes into the shared text, behind what waits at the same place. */
  update(update: ViewUpdate): void {
    if (!update.docChanged || update.transactions[0]?.annotation(ySyncAnnotation) === this.config) return;
    this.typed = Date.now();
    let { changes } = update;
    if (this.waiting) {
      changes = update.changes.map(this.waiting);
      this.waiting = this.waiting.map(update.changes, true);
    }
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
    const changes = this.waiting;
    this.waiting = null;
    if (changes) this.view.dispatch({ changes, annotations: [ySyncAnnotation.of(this.config), fromOthers.of(true)] });
  };

  /** Where a place of the editor's text is in the shared one, and the other way round. */
  toShared(place: number): number { return this.waiting ? this.waiting.mapPos(place) : place; }
  toEditor(place: number): number {
    return this.waiting ? this.waiting.invertedDesc.mapPos(Math.min(place, this.waiting.newLength)) : place;
  }

  private readonly hear = ({ delta }: YTextEvent, { origin }: Transaction): void => {
    if (origin === this.config) return;
    if (!this.isOthers(origin)) {
      this.show();
      const changes = changesOf(delta, this.view.state.doc.length);
      return this.view.dispatch({ changes, annotations: ySyncAnnotation.of(this.config) });
    }
    const changes = changesOf(delta, this.waiting?.newLength ?? this.view.state.doc.length);
    this.waiting = this.waiting?.compose(changes) ?? changes;
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

const plugin = ViewPlugin.define((view, isOthers: (origin: unknown) => boolean) => new Sync(view, isOthers));

/** `extensions` of y-codemirror with this in place of its own; `isOthers` tells whose a change of the document is. */
export function sync(extensions: Extension, isOthers: (origin: unknown) => boolean): Extension {
  return (extensions as Extension[]).map((each) => (each === ySync ? plugin.of(isOthers) : each));
}

/** The plugin of an editor. */
export function syncOf(view: EditorView): Sync | null {
  return view.plugin(plugin);
}
