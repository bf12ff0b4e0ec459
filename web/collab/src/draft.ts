// What a person types as suggestions: changes of the editor's text that the shared text does not have.
import { ChangeSet, type Text } from "@codemirror/state";

const TOGETHER = 500;  // ms between keys that are undone together

/** Changes over the shared text, while others change that. */
export class Draft {
  // What the server has as suggestions, what it is being told, and what was typed since: each over what the one before gives.
  private layers: [ChangeSet, ChangeSet, ChangeSet];

  constructor(length: number) {
    const none = ChangeSet.empty(length);
    this.layers = [none, none, none];
  }

  /** What leads from the shared text to that of the editor. */
  get changes(): ChangeSet {
    const [had, told, typed] = this.layers;
    return had.compose(told).compose(typed);
  }

  /** Whether the server has all of it. */
  get isSent(): boolean {
    return this.layers[1].empty && this.layers[2].empty;
  }

  /** The person typed. */
  write(changes: ChangeSet): void {
    const [had, told, typed] = this.layers;
    this.layers = [had, told, typed.compose(changes)];
  }

  /** Others changed the shared text; returns what that changes in the editor's. */
  hear(changes: ChangeSet): ChangeSet {
    const [layers, moved] = past(this.layers, changes);
    this.layers = layers as [ChangeSet, ChangeSet, ChangeSet];
    return moved;
  }

  /** All of it is being sent. */
  send(): ChangeSet {
    const [had, told, typed] = this.layers;
    const now = told.compose(typed);
    this.layers = [had, now, ChangeSet.empty(now.newLength)];
    return this.changes;
  }

  /** The server has it, or it has not. */
  answered(has: boolean): void {
    const [had, told, typed] = this.layers;
    if (has) {
      const now = had.compose(told);
      this.layers = [now, ChangeSet.empty(now.newLength), typed];
    } else this.layers = [had, ChangeSet.empty(had.newLength), told.compose(typed)];
  }

  /** What the server has stands for itself from now on; returns what that changes in the editor's text. */
  drop(shared: Text): ChangeSet {
    const [had, ...rest] = this.layers;
    const [layers, back] = past(rest, had.invert(shared));
    this.layers = [ChangeSet.empty(shared.length), ...(layers as [ChangeSet, ChangeSet])];
    return back;
  }
}

/** Changes one after the other, and a change below them: as they are over that, and it over them. */
function past(layers: ChangeSet[], changes: ChangeSet): [ChangeSet[], ChangeSet] {
  let below = changes;
  const moved = layers.map((layer) => {
    const now = layer.map(below);
    below = below.map(layer, true);
    return now;
  });
  return [moved, below];
}

export type Way = "undo" | "redo";

/** What takes back what was typed in a draft, the last first. */
export class Steps {
  private readonly stacks: Record<Way, ChangeSet[]> = { undo: [], redo: [] };
  private last = 0;

  /** The text was changed by hand, or by a step that was taken. */
  add(inverse: ChangeSet, way: Way | null, now = Date.now()): void {
    const to = this.stacks[way === "undo" ? "redo" : "undo"];
    const before = !way && now - this.last < TOGETHER ? to.pop() : undefined;
    to.push(before ? inverse.compose(before) : inverse);
    if (!way) this.stacks.redo = [];
    this.last = way ? 0 : now;
  }

  take(way: Way): ChangeSet | undefined {
    this.last = 0;
    return this.stacks[way].pop();
  }

  /** Others changed the text. */
  hear(changes: ChangeSet): void {
    for (const way of ["undo", "redo"] as const) this.stacks[way] = past(this.stacks[way].reverse(), changes)[0].reverse();
  }

  clear(): void {
    this.stacks.undo = [];
    this.stacks.redo = [];
    this.last = 0;
  }
}
