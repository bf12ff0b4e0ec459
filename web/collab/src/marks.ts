// Passages with comments, marked in the text. Their places move with every change, whoever makes it.
import { type EditorState, Facet, type Range, StateEffect, StateField, type Text, type Transaction } from "@codemirror/state";
import { Decoration, type DecorationSet, EditorView, keymap } from "@codemirror/view";
import type { Thread } from "./api";
import { nearest } from "./suggestions";
import { syncOf } from "./sync";

export interface Span { from: number; to: number }

interface Mark extends Span { thread: Thread }

interface Marks { marks: Mark[]; draft: Span | null; active: string | null; decorations: DecorationSet }

const given = StateEffect.define<Thread[]>();
const drafted = StateEffect.define<Span | null>();
const entered = StateEffect.define<string>();
const beginning = Facet.define<(view: EditorView) => void, (view: EditorView) => void>({ combine: (all) => all[0] ?? (() => undefined) });

const marking = StateField.define<Marks>({
  create: () => ({ marks: [], draft: null, active: null, decorations: Decoration.none }),
  update: (before, change) => {
    const fresh = change.effects.find((each) => each.is(given))?.value;
    const draft = change.effects.find((each) => each.is(drafted));
    const wanted = change.effects.find((each) => each.is(entered))?.value;
    if (!fresh && !draft && !wanted && !change.docChanged && !change.selection) return before;
    let { marks } = before;
    if (change.docChanged) marks = marks.map((each) => ({ ...each, ...moved(each, change) }));
    if (fresh) marks = place(change.state.doc, fresh, marks);
    const now = draft ? draft.value : before.draft && change.docChanged ? moved(before.draft, change) : before.draft;
    const { head } = change.state.selection.main;
    const active = wanted ?? marks.findLast(({ from, to }) => from < to && from <= head && head <= to)?.thread.id ?? null;
    return { marks, draft: now, active, decorations: draw(marks, now, active) };
  },
  provide: (field) => EditorView.decorations.from(field, ({ decorations }) => decorations),
});

function moved({ from, to }: Span, { changes }: Transaction): Span {
  const start = changes.mapPos(from, 1);
  return { from: start, to: Math.max(start, changes.mapPos(to, -1)) };
}

/** Find each where we had it, where the server saw it, or at the nearest place that reads the same. */
function place(doc: Text, threads: readonly Thread[], before: readonly Mark[]): Mark[] {
  const known = new Map(before.map((each) => [each.thread.id, each]));
  let whole: string | null = null;
  return threads.filter((each) => !each.resolved_by).map((thread): Mark => {
    const { words, range, detached } = thread;
    const reads = (from: number) => doc.sliceString(from, from + words.length) === words;
    const had = known.get(thread.id)?.from;
    const start = Math.min(range.start, doc.length);
    if (detached) return { thread, from: start, to: start };
    let from = had !== undefined && reads(had) ? had : reads(start) ? start : null;
    if (from === null) {
      whole ??= doc.toString();
      from = nearest(whole, words, start);
    }
    return from === null ? { thread, from: start, to: start } : { thread, from, to: from + words.length };
  });
}

function draw(marks: readonly Mark[], draft: Span | null, active: string | null): DecorationSet {
  const drawn: Range<Decoration>[] = [];
  for (const { thread, from, to } of marks) {
    if (to > from) drawn.push(Decoration.mark({ class: `commented${thread.id === active ? " chosen" : ""}` }).range(from, to));
  }
  if (draft && draft.to > draft.from) drawn.push(Decoration.mark({ class: "commented draft" }).range(draft.from, draft.to));
  return Decoration.set(drawn, true);
}

/** Mark the passages of these threads, but for those that are resolved. */
export function showThreads(view: EditorView, threads: Thread[]): void {
  const sync = syncOf(view);
  const placed = sync?.draft ? threads.map((each) => ({ ...each, range: { start: sync.toEditor(each.range.start), end: sync.toEditor(each.range.end) } })) : threads;
  view.dispatch({ effects: given.of(placed) });
}

/** Mark the passage that a comment is being written on; null: there is none. */
export function setDraft(view: EditorView, span: Span | null): void {
  view.dispatch({ effects: drafted.of(span) });
}

export function draftOf(state: EditorState): Span | null {
  return state.field(marking).draft;
}

/** The thread whose passage the caret is in. */
export function activeThread(state: EditorState): string | null {
  return state.field(marking).active;
}

/** Put the caret at a thread's passage. */
export function enterThread(view: EditorView, id: string): void {
  const found = view.state.field(marking).marks.find((each) => each.thread.id === id);
  if (!found) return;
  view.dispatch({ selection: { anchor: found.from }, effects: [entered.of(id), EditorView.scrollIntoView(found.from, { y: "center" })] });
  view.focus();
}

/** The selection without blanks around it, or where nothing is selected the line of the caret; null if that is blank. */
export function passage(state: EditorState): Span | null {
  const { main } = state.selection;
  const { from, to } = main.empty ? state.doc.lineAt(main.head) : main;
  const text = state.doc.sliceString(from, to);
  const start = from + text.length - text.trimStart().length;
  return text.trim() ? { from: start, to: start + text.trim().length } : null;
}

export function marks(begin: (view: EditorView) => void) {
  return [
    marking,
    beginning.of(begin),
    keymap.of([{ key: "Mod-Alt-m", run: (view) => { view.state.facet(beginning)(view); return true; } }]),
  ];
}
