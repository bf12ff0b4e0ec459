// What was written here and the server has not confirmed: kept until it has, over the end of this tab, and put in
// again as the person's own edit where the server's document has another history.
import { ChangeSet, Text } from "@codemirror/state";
import * as Y from "yjs";
import { pieces } from "./diff";
import { forget, hold, keep, type Kept, left, seesTabs } from "./kept";

const LATE = 1_500;  // ms after which it is a question whether what was sent arrived
const SOON = 120, SOON_CONNECTED = 400;  // ms after which it is kept; connected, it is mostly confirmed before

const lines = (text: string) => Text.of(text.split("\n"));

/** The text that the server has confirmed, and what was written here since, while others write, too. */
export class Own {
  private asked: ChangeSet;  // the server is being asked whether it has these
  private since: ChangeSet;  // written after that

  constructor(public base: Text) {
    this.asked = this.since = ChangeSet.empty(base.length);
  }

  get changes(): ChangeSet {
    return this.asked.compose(this.since);
  }

  /** This person wrote. */
  mine(changes: ChangeSet): void {
    this.since = this.since.compose(changes);
  }

  /** Somebody else did: it is in the base, too, and ours moves along. */
  theirs(changes: ChangeSet): void {
    const since = past(this.asked.apply(this.base), this.since, changes);
    const asked = past(this.base, this.asked, since.changes);
    this.since = since.own;
    this.asked = asked.own;
    this.base = asked.base;
  }

  ask(): void {
    this.asked = this.changes;
    this.since = ChangeSet.empty(this.asked.newLength);
  }

  confirm(): void {
    this.base = this.asked.apply(this.base);
    this.asked = ChangeSet.empty(this.base.length);
  }
}

/**
 * What others changed in the text that `own` made of `base`, as if they had changed `base` and we had written then.
 * What they removed of ours is not ours any more.
 */
function past(base: Text, own: ChangeSet, theirs: ChangeSet): { base: Text; own: ChangeSet; changes: ChangeSet } {
  if (own.empty) return { base: theirs.apply(base), own: ChangeSet.empty(theirs.newLength), changes: theirs };
  const now = theirs.apply(own.apply(base));
  const gone: { from: number; to: number }[] = [], come: { from: number; insert: Text }[] = [];
  let shift = 0;
  theirs.iterChanges((from, to, _from, _to, insert) => {
    if (to > from) gone.push({ from, to });
    if (insert.length) come.push({ from: from + shift, insert });
    shift -= to - from;
  }, true);
  const removed = ChangeSet.of(gone, theirs.length), inserted = ChangeSet.of(come, removed.newLength);
  const first = removed.map(own.invert(base));
  const left = first.invert(base).compose(own).compose(removed);
  const between = first.apply(base);
  const second = inserted.map(left.invert(between));
  const after = second.apply(between);
  const changes = first.compose(second);
  for (const before of [false, true]) {  // at one place either may stand first
    const moved = left.map(second, before);
    if (moved.apply(after).eq(now)) return { base: after, own: moved, changes };
  }
  return { base: after, own: difference(after, now), changes };
}

function difference(old: Text, now: Text): ChangeSet {
  return ChangeSet.of(pieces(old.toString(), now.toString()).map(({ from, to, insert }) => ({ from, to, insert: lines(insert) })), old.length);
}

/**
 * What somebody changed in `base`, as changes of another text that came of it. What stands there already is left out,
 * so that nothing is doubled; passages whose place is not to be found are told as they are: all, if another tab may
 * be about to put them in, too (not `sure`).
 */
export function rebased(base: Text, own: ChangeSet, now: Text, sure = true): { changes: ChangeSet; left: string[] } {
  const theirs = pieces(base.toString(), now.toString());
  const moved = difference(base, now);
  const found: { from: number; to: number; insert: Text }[] = [];
  const without: string[] = [];
  own.iterChanges((from, to, _from, _to, insert) => {
    const text = insert.toString();
    const close = theirs.filter((each) => each.from <= to && from <= each.to);
    if (!close.length && sure) found.push({ from: moved.mapPos(from, -1), to: moved.mapPos(to, 1), insert });
    else if (text.trim() && !close.some((each) => each.insert.includes(text.trim()))) without.push(text);
  });
  return { changes: ChangeSet.of(found, now.length), left: without };
}

export class Unsent {
  /** Whether all of it is kept in this browser. */
  isKept = true;
  private readonly key = crypto.getRandomValues(new Uint32Array(4)).join("-");
  private readonly release = hold(this.key);
  private updates: Uint8Array[] = [];
  private asked = 0;  // how many of them the server is being asked for
  private own: Own | null = null;
  private left: string[] = [];
  private instead: string[] = [];  // keys of what other tabs kept and is among ours now
  private written = false;
  private waits = 0;  // since when, as Date.now() tells it
  private timer = 0;
  private over = false;

  constructor(private readonly page: string, private readonly around: {
    history: () => string | null;
    connected: () => boolean;
    changed: () => void;
  }) {
    addEventListener("pagehide", this.now);
    document.addEventListener("visibilitychange", this.now);
  }

  get isEmpty(): boolean {
    return !this.updates.length;
  }

  /** Whether it has to be feared that the server does not get it. */
  get isLate(): boolean {
    return !this.isEmpty && (!this.around.connected() || Date.now() - this.waits > LATE);
  }

  /** The text as it came from the server. */
  begin(text: Text): void {
    this.own = new Own(text);
  }

  /** The text changed. */
  changed(changes: ChangeSet, mine: boolean): void {
    if (mine) this.own?.mine(changes);
    else this.own?.theirs(changes);
  }

  /** This person changed the document. */
  add(update: Uint8Array): void {
    if (this.isEmpty) this.waits = Date.now();
    this.updates.push(update);
    this.isKept = false;
    this.soon();
    this.around.changed();
  }

  /** The server is asked whether it has all of it. */
  ask(): void {
    this.asked = this.updates.length;
    this.own?.ask();
  }

  /** It has what it was asked for. */
  confirm(): void {
    this.updates.splice(0, this.asked);
    this.asked = 0;
    this.waits = Date.now();
    this.own?.confirm();
    if (this.isEmpty) {
      clearTimeout(this.timer);
      this.timer = 0;
      this.isKept = true;
      if (this.left.length) void this.write();
      else this.clear();
    }
    this.around.changed();
  }

  /** All that is unsent, to be taken up by another document of this page. */
  carry(): Kept {
    return {
      key: this.key, page: this.page, history: this.around.history(),
      update: this.updates.length ? Y.mergeUpdates(this.updates) : null,
      base: this.own?.base.toString() ?? "", own: this.own?.changes.toJSON() ?? [], left: this.left,
    };
  }

  /** Put in what this tab carried along, and what closed tabs left. */
  async restore(doc: Y.Doc, edit: (change: (now: Text) => ChangeSet) => void, carried: Kept | null): Promise<string[]> {
    const found = (await left()).filter((each) => each.page === this.page && each.key !== carried?.key && each.key !== this.key);
    if (this.over) return [];
    for (const kept of carried ? [carried, ...found] : found) this.put(kept, kept === carried || seesTabs, doc, edit);
    if (this.instead.length) await this.write();
    return this.left;
  }

  private put(kept: Kept, sure: boolean, doc: Y.Doc, edit: (change: (now: Text) => ChangeSet) => void): void {
    this.instead.push(kept.key);
    this.left.push(...kept.left);
    if (!kept.update) return;
    if (kept.history === this.around.history() && fits(doc, kept.update)) return Y.applyUpdate(doc, kept.update, this);
    edit((now) => {
      const { changes, left } = rebased(lines(kept.base), ChangeSet.fromJSON(kept.own), now, sure);
      this.left.push(...left);
      return changes;
    });
  }

  /** The person has seen to what had no place. */
  dismiss(): void {
    this.left = [];
    if (this.isEmpty) this.clear();
    else void this.write();
  }

  close(): void {
    this.over = true;
    if (!this.isEmpty && !this.isKept) void this.write();
    clearTimeout(this.timer);
    removeEventListener("pagehide", this.now);
    document.removeEventListener("visibilitychange", this.now);
    this.release();
  }

  private soon(): void {
    this.timer ||= window.setTimeout(() => void this.write(), this.around.connected() ? SOON_CONNECTED : SOON);
  }

  private readonly now = (): void => { if (!this.isEmpty && !this.isKept) void this.write(); };

  private async write(): Promise<void> {
    clearTimeout(this.timer);
    this.timer = 0;
    const kept = this.carry();
    const instead = this.instead.splice(0);
    if (!kept.update && !kept.left.length) return this.clear(instead);
    const last = this.updates.at(-1);
    this.written = true;
    const done = await keep(kept, instead);
    if (done && this.updates.at(-1) === last) this.isKept = true;
    if (!this.over) this.around.changed();
  }

  private clear(instead: string[] = []): void {
    if (!this.written && !instead.length) return;
    this.written = false;
    void forget(this.key, ...instead);
  }
}

/** Whether the document has all that an update builds on. */
function fits(doc: Y.Doc, update: Uint8Array): boolean {
  const trial = new Y.Doc();
  Y.applyUpdate(trial, Y.encodeStateAsUpdate(doc));
  Y.applyUpdate(trial, update);
  const fits = !trial.store.pendingStructs && !trial.store.pendingDs;
  trial.destroy();
  return fits;
}
