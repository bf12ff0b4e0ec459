// A person's undo: what they wrote, what they suggested and how they settled suggestions, the last first.
import { type Text, UndoManager } from "yjs";
import type { Way } from "./draft";

type How = "accept" | "reject" | "suggest";
type What = "accept" | "reject" | "reopen";
type Send = (what: What, ids: string[]) => Promise<string[]>;

const BACK: Record<How, What> = { accept: "reopen", reject: "reopen", suggest: "reject" };
const AGAIN: Record<How, What> = { accept: "accept", reject: "reject", suggest: "reopen" };

interface Resolution {
  how: How;
  ids: Promise<string[]>;  // none if it failed
  depth: number;  // how many changes of the text are below it on its stack
}

export class PersonalUndo extends UndoManager {
  private settled: Resolution[] = [];
  private reopened: Resolution[] = [];
  private queue: Promise<unknown> = Promise.resolve();
  /** Does so with what is being typed as a suggestion; tells whether there is such. */
  draft: (way: Way) => boolean = () => false;

  /** `send` asks the server, and returns those with which it did so: none if it could not. */
  constructor(text: Text, private readonly send: Send) {
    super(text);
    const wrote = ({ type, origin }: { type: string; origin: unknown }) => { if (type === "undo" && origin !== this) this.reopened = []; };
    this.on("stack-item-added", wrote);
    this.on("stack-item-updated", wrote);
  }

  /** This person settles suggestions, or makes some; `ids` are those with which the server did so. */
  add(how: How, ids: Promise<string[]>): void {
    this.clear(false, true);
    this.reopened = [];
    this.push(this.settled, how, ids, this.undoStack.length);
  }

  override undo(): ReturnType<UndoManager["undo"]> {
    if (this.draft("undo")) return null;
    return this.turn(this.settled, this.undoStack, () => super.undo(), (last) =>
      this.push(this.reopened, last.how, this.ask(BACK[last.how], last.ids), this.redoStack.length));
  }

  override redo(): ReturnType<UndoManager["redo"]> {
    if (this.draft("redo")) return null;
    return this.turn(this.reopened, this.redoStack, () => super.redo(), (last) =>
      this.push(this.settled, last.how, this.ask(AGAIN[last.how], last.ids), this.undoStack.length));
  }

  private turn<Item>(resolutions: Resolution[], { length }: unknown[], text: () => Item, settle: (last: Resolution) => void): Item | null {
    const last = resolutions.at(-1);
    if (last && last.depth >= length) {
      resolutions.pop();
      settle(last);
      return null;
    }
    const done = text();
    for (const each of this.settled) each.depth = Math.min(each.depth, this.undoStack.length);  // those without effect go, too
    for (const each of this.reopened) each.depth = Math.min(each.depth, this.redoStack.length);
    return done;
  }

  private push(to: Resolution[], how: How, ids: Promise<string[]>, depth: number): void {
    this.stopCapturing();
    to.push({ how, ids, depth });
    void ids.then(({ length }) => {
      if (length) return;
      for (const from of [this.settled, this.reopened]) {
        const at = from.findIndex((each) => each.ids === ids);
        if (at >= 0) from.splice(at, 1);
      }
    });
  }

  private ask(what: What, ids: Promise<string[]>): Promise<string[]> {
    const asked = this.queue.then(() => ids).then((those) => (those.length ? this.send(what, those) : []));
    this.queue = asked;
    return asked;
  }
}
