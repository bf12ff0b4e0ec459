// The carets and selections of the others. y-codemirror's own write style attributes, which our policy forbids.
import { Annotation, type Range } from "@codemirror/state";
import { Decoration, type DecorationSet, EditorView, ViewPlugin, type ViewUpdate, WidgetType } from "@codemirror/view";
import type { Awareness } from "y-protocols/awareness";
import * as Y from "yjs";
import { syncOf } from "./sync";

const moved = Annotation.define<true>();

/** A colour that somebody else says they have, if it is nothing but a colour. */
export function safeColor(color: unknown): string {
  return typeof color === "string" && /^(#[0-9a-f]{3,8}|hsl\([\d.]+(deg)?[ ,]+[\d.]+%[ ,]+[\d.]+%\))$/i.test(color) ? color : "#7a7a7a";
}

class Caret extends WidgetType {
  constructor(readonly name: string, readonly color: string, readonly move: string) { super(); }
  override eq(other: Caret): boolean {
    return other.name === this.name && other.color === this.color && other.move === this.move;
  }
  toDOM(): HTMLElement {
    const caret = document.createElement("span");
    caret.className = "peer-caret";
    caret.setAttribute("aria-hidden", "true");
    caret.style.setProperty("--peer", this.color);
    const flag = document.createElement("span");
    flag.className = "peer-name";
    flag.textContent = this.name;
    caret.append("\u2060", flag, "\u2060");
    return caret;
  }
  override ignoreEvent(): boolean { return true; }
}

class Cursors {
  decorations: DecorationSet = Decoration.none;
  private shown = 0;
  private told = 0;

  constructor(private readonly view: EditorView, private readonly text: Y.Text, private readonly awareness: Awareness) {
    awareness.on("change", this.changed);
    this.draw();
  }

  destroy(): void {
    this.awareness.off("change", this.changed);
    cancelAnimationFrame(this.shown);
    clearTimeout(this.told);
  }

  update(update: ViewUpdate): void {
    if (update.transactions.some((each) => each.annotation(moved))) this.draw();
    else if (update.docChanged) this.decorations = this.decorations.map(update.changes);
    if (update.selectionSet || update.focusChanged || update.docChanged) this.tell();
  }

  /** Others moved: draw once a frame, however many did. */
  private readonly changed = ({ added, updated, removed }: Record<"added" | "updated" | "removed", number[]>): void => {
    const others = [...added, ...updated, ...removed].some((each) => each !== this.awareness.clientID);
    if (!others || this.shown) return;
    this.shown = requestAnimationFrame(() => {
      this.shown = 0;
      this.view.dispatch({ annotations: moved.of(true) });
    });
  };

  /** Tell the others where we are, a moment later: finding a place in a long text takes time. */
  private tell(): void {
    this.told ||= window.setTimeout(() => {
      this.told = 0;
      if (!this.view.hasFocus || !this.awareness.getLocalState()) return;
      const { anchor, head } = this.view.state.selection.main;
      const [a, b] = [anchor, head].map((each) => Y.createRelativePositionFromTypeIndex(this.text, syncOf(this.view)?.toShared(each) ?? each));
      const before = this.awareness.getLocalState()?.["cursor"] as { anchor: object; head: object } | null | undefined;
      const same = before && Y.compareRelativePositions(place(before.anchor), a!) && Y.compareRelativePositions(place(before.head), b!);
      if (!same) this.awareness.setLocalStateField("cursor", { anchor: a, head: b });
    }, 60);
  }

  private draw(): void {
    const drawn: Range<Decoration>[] = [];
    const length = this.view.state.doc.length;
    for (const [client, state] of this.awareness.getStates()) {
      if (client === this.awareness.clientID) continue;
      const cursor = state["cursor"] as { anchor?: object; head?: object } | null | undefined;
      const head = this.find(cursor?.head, length), anchor = this.find(cursor?.anchor ?? cursor?.head, length);
      if (head === null || anchor === null) continue;
      const user = (state["user"] ?? {}) as { name?: unknown; color?: unknown };
      const color = safeColor(user.color);
      const [from, to] = anchor < head ? [anchor, head] : [head, anchor];
      if (to > from) drawn.push(Decoration.mark({ class: "peer-selection", attributes: { style: `--peer: ${color}` } }).range(from, to));
      // Another widget whenever they moved or typed, which shows their name anew; not at every sign of life.
      const at = cursor?.head as { item?: unknown } | undefined;
      const move = JSON.stringify([cursor, at?.item ? null : head]);
      drawn.push(Decoration.widget({ widget: new Caret(String(user.name ?? "?").slice(0, 40), color, move), side: 1 }).range(head));
    }
    this.decorations = Decoration.set(drawn, true);
  }

  private find(position: object | undefined, length: number): number | null {
    if (!position) return null;
    try {
      const found = Y.createAbsolutePositionFromRelativePosition(place(position), this.text.doc!);
      return found?.type === this.text ? Math.min(syncOf(this.view)?.toEditor(found.index) ?? found.index, length) : null;
    } catch {
      return null;  // what others say of themselves may be anything
    }
  }
}

function place(position: object): Y.RelativePosition {
  return Y.createRelativePositionFromJSON(position);
}

export function cursors(text: Y.Text, awareness: Awareness) {
  return ViewPlugin.define((view) => new Cursors(view, text, awareness), { decorations: (plugin) => plugin.decorations });
}
