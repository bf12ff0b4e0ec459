// Suggestions in the text: what would go is struck, what would come stands beside it, with two buttons.
// They are never part of the text. Their places move with every change, whoever makes it.
import { type EditorState, Facet, type Range, StateEffect, StateField, type Text, type Transaction } from "@codemirror/state";
import { Decoration, type DecorationSet, EditorView, keymap, WidgetType } from "@codemirror/view";
import type { Suggestion } from "./api";
import { pieces } from "./diff";
import { el, sign } from "./dom";
import { syncOf } from "./sync";
import { t } from "./texts";

/** A suggestion and where it is; without a place, what it would replace is not in the text (any more). */
export interface Placed { suggestion: Suggestion; from: number; to: number; found: boolean }

export interface Reviewing { placed: Placed[]; active: string | null; decorations: DecorationSet }

type Settle = (id: string, how: "accept" | "reject") => void;

const given = StateEffect.define<{ suggestions: Suggestion[]; drafting: boolean }>();
const entered = StateEffect.define<string>();
const settling = Facet.define<Settle, Settle>({ combine: (all) => all[0] ?? (() => undefined) });

export const reviewing = StateField.define<Reviewing>({
  create: () => ({ placed: [], active: null, decorations: Decoration.none }),
  update: (before, change) => {
    const fresh = change.effects.find((each) => each.is(given));
    const wanted = change.effects.find((each) => each.is(entered))?.value;
    if (!fresh && !change.docChanged && !change.selection && !wanted) return before;
    if (!before.placed.length && !fresh) return before;
    const { doc } = change.state;
    let placed = change.docChanged ? before.placed.map((each) => moved(each, change)) : before.placed;
    if (fresh) placed = locate(doc, fresh.value.suggestions, placed, fresh.value.drafting);
    const head = change.state.selection.main.head;
    const active = wanted ?? at(placed, head)?.suggestion.id ?? null;
    const same = !fresh && active === before.active && !(change.docChanged && touched(before.placed, change));
    const decorations = same ? before.decorations.map(change.changes) : draw(doc, placed, active, !change.state.readOnly);
    return { placed, active, decorations };
  },
  provide: (field) => EditorView.decorations.from(field, ({ decorations }) => decorations),
});

function moved(each: Placed, { changes }: Transaction): Placed {
  const from = changes.mapPos(each.from, 1);
  return { ...each, from, to: Math.max(from, changes.mapPos(each.to, -1)) };
}

function touched(placed: readonly Placed[], { changes }: Transaction): boolean {
  return placed.some(({ from, to }) => changes.touchesRange(from, to) !== false);
}

/** Find each where the server saw it, where we had it, or at the nearest place that reads the same: unless a draft may hide it. */
function locate(doc: Text, suggestions: readonly Suggestion[], before: readonly Placed[], drafting: boolean): Placed[] {
  const known = new Map(before.map((each) => [each.suggestion.id, each]));
  let whole: string | null = null;
  const placed = suggestions.map((suggestion): Placed => {
    const { search, range } = suggestion;
    const had = known.get(suggestion.id);
    const reads = (from: number) => doc.sliceString(from, from + search.length) === search;
    if (suggestion.status === "pending") {
      if (had?.found && had.suggestion.search === search && reads(had.from)) return { ...had, suggestion, to: had.from + search.length };
      if (range.start <= doc.length && reads(range.start))
        return { suggestion, from: range.start, to: range.start + search.length, found: true };
      whole ??= doc.toString();
      const near = drafting ? null : nearest(whole, search, range.start);
      if (near !== null) return { suggestion, from: near, to: near + search.length, found: true };
    }
    // People have written in it: the place is where the server tells, and its text is not what it was.
    const from = Math.min(range.start, doc.length);
    const to = Math.min(Math.max(from, range.end), doc.length);
    return { suggestion, from, to, found: suggestion.status === "changed" && to > from };
  });
  return placed.sort((a, b) => a.from - b.from || a.to - b.to);
}

export function nearest(text: string, search: string, near: number): number | null {
  if (!search) return Math.min(near, text.length);
  const [left, right] = [text.lastIndexOf(search, near), text.indexOf(search, near)];
  if (left < 0 || right < 0) return left < 0 && right < 0 ? null : Math.max(left, right);
  return near - left <= right - near ? left : right;
}

/** The suggestion at a place; where two meet, the one that begins there. */
function at(placed: readonly Placed[], head: number): Placed | undefined {
  return placed.findLast((each) => each.found && each.from <= head && head <= endOf(each));
}

/** Where it ends for the eye: whole lines are suggested with their line end, which lies on the next line. */
function endOf({ suggestion: { search }, from, to }: Placed): number {
  return search.endsWith("\n") ? Math.max(from, to - 1) : to;
}

const compared = new Map<string, ReturnType<typeof pieces>>();

export function differences(old: string, now: string): ReturnType<typeof pieces> {
  const key = `${old.length}:${old}${now}`;
  const known = compared.get(key) ?? pieces(old, now);
  if (compared.size > 500) compared.clear();
  compared.set(key, known);
  return known;
}

function draw(doc: Text, placed: readonly Placed[], active: string | null, writable: boolean): DecorationSet {
  const drawn: Range<Decoration>[] = [];
  for (const place of placed) {
    const { suggestion, from, to, found } = place;
    if (!found) continue;
    const chosen = suggestion.id === active ? " chosen" : "";
    const text = doc.sliceString(from, to);
    const seen = Math.max(endOf(place), Math.min(from + 1, to));  // not beyond the buttons
    if (text !== suggestion.search) {  // somebody writes in it: the server will say what is to be done
      if (to > from) drawn.push(Decoration.mark({ class: `suggested-unsure${chosen}` }).range(from, seen));
    } else {
      if (to > from) drawn.push(Decoration.mark({ class: `suggested${chosen}` }).range(from, seen));
      for (const piece of differences(text, suggestion.replace)) {
        const gone = text.slice(piece.from, piece.to);
        if (gone) drawn.push(Decoration.mark({ tagName: "del", class: gone.trim() ? "" : "blank" }).range(from + piece.from, from + piece.to));
        if (piece.insert) drawn.push(Decoration.widget({ widget: new Coming(piece.insert, chosen), side: 1 }).range(from + piece.to));
      }
    }
    if (writable) drawn.push(Decoration.widget({ widget: new Buttons(suggestion, chosen), side: 2 }).range(endOf(place)));
  }
  return Decoration.set(drawn, true);
}

class Coming extends WidgetType {
  constructor(readonly text: string, readonly chosen: string) { super(); }
  override eq(other: Coming): boolean { return other.text === this.text && other.chosen === this.chosen; }
  override get lineBreaks(): number { return this.text.split("\n").length - 1; }
  toDOM(): HTMLElement {
    const blank = !this.text.trim();
    return el("ins", { class: `coming${this.chosen}` }, blank ? this.text.replaceAll(" ", "␣").replaceAll("\u3000", "□").replaceAll("\n", "↵\n") : this.text);
  }
}

class Buttons extends WidgetType {
  private readonly id: string;
  private readonly change: string;
  constructor(suggestion: Suggestion, private readonly chosen: string) {
    super();
    this.id = suggestion.id;
    this.change = told(suggestion);
  }
  override eq(other: Buttons): boolean { return other.id === this.id && other.chosen === this.chosen && other.change === this.change; }
  toDOM(view: EditorView): HTMLElement {
    const settle = view.state.facet(settling);
    const press = (how: "accept" | "reject") => () => settle(this.id, how);
    const calm = { onmousedown: (event: Event) => event.preventDefault() };  // the caret stays
    return el("span", { class: `settle${this.chosen}`, contenteditable: "false", "data-suggestion": this.id },
      sign("✓", "acceptThis", press("accept"), { class: "yes", ...calm }, { change: this.change }),
      sign("✗", "rejectThis", press("reject"), { class: "no", ...calm }, { change: this.change }));
  }
  override ignoreEvent(): boolean { return true; }
}

/** Show these; those that are not among them have been settled. */
export function show(view: EditorView, suggestions: Suggestion[]): void {
  const sync = syncOf(view);
  const drafting = !!sync?.draft;
  const placed = drafting ? suggestions.map((each) => ({ ...each, range: { start: sync.toEditor(each.range.start), end: sync.toEditor(each.range.end) } })) : suggestions;
  view.dispatch({ effects: given.of({ suggestions: placed, drafting }) });
}

/** Whether the text is what it was, or the server knows what became of it. What was just accepted is neither. */
function isUnsettled(doc: Text, { suggestion, from, to }: Placed): boolean {
  return suggestion.status === "changed" || doc.sliceString(from, to) === suggestion.search;
}

/** Put the caret at a suggestion. */
export function enter(view: EditorView, id: string, focus = true): void {
  const found = view.state.field(reviewing).placed.find((each) => each.suggestion.id === id);
  if (!found) return;
  view.dispatch({ selection: { anchor: found.from }, effects: [entered.of(id), EditorView.scrollIntoView(found.from, { y: "center" })] });
  if (focus) view.focus();
}

/** Go to the next or the previous one, round the end. Returns whether there is any. */
export function step(view: EditorView, by: 1 | -1): boolean {
  const { placed, active } = view.state.field(reviewing);
  const found = placed.filter((each) => each.found && isUnsettled(view.state.doc, each));
  if (!found.length) return false;
  const { head } = view.state.selection.main;
  const now = found.findIndex((each) => each.suggestion.id === active);
  const next = now >= 0 ? now + by : by > 0 ? found.findIndex((each) => each.from >= head) : found.findLastIndex((each) => each.to < head);
  enter(view, found[now < 0 && next < 0 ? (by > 0 ? 0 : found.length - 1) : (next + found.length) % found.length]!.suggestion.id);
  return true;
}

/** What a suggestion does, in words. */
export function told({ search, replace }: Suggestion): string {
  const [piece, ...more] = differences(search, replace);
  const old = piece && !more.length ? search.slice(piece.from, piece.to) : search;
  const now = piece && !more.length ? piece.insert : replace;
  const short = (text: string) => (text.length > 80 ? `${text.slice(0, 79)}…` : text);
  return t(!old ? "insertNew" : !now ? "deleteOld" : "replaceBy", { old: short(old), new: short(now) });
}

export function current(state: EditorState): Placed | undefined {
  const { placed, active } = state.field(reviewing);
  return placed.find((each) => each.suggestion.id === active);
}

export function suggestions(settle: Settle) {
  const key = (how: "accept" | "reject") => (view: EditorView) => {
    const chosen = current(view.state);
    if (!chosen?.found || view.state.readOnly || !view.state.selection.main.empty) return false;
    settle(chosen.suggestion.id, how);
    return true;
  };
  return [
    reviewing,
    settling.of(settle),
    keymap.of([
      { key: "Tab", run: key("accept") },
      { key: "Escape", run: key("reject") },
      { key: "Alt-n", run: (view) => step(view, 1) },
      { key: "Alt-p", run: (view) => step(view, -1) },
      { key: "F8", run: (view) => step(view, 1), shift: (view) => step(view, -1) },
    ]),
  ];
}
