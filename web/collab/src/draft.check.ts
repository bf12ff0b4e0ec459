// Draft under random people: `node` runs it when a test has bundled it. The shared text and the draft make the editor's.
import { ChangeSet, Text } from "@codemirror/state";
import { Draft, Steps } from "./draft";

declare const process: { argv: string[] };
let seed = Number(process.argv[2] ?? 1);
const dice = (n: number) => { seed = (seed * 48271) % 0x7fffffff; return seed % n; };
const signs = ["a", "b", "山", "\n", " ", "👩", "é"];
const some = (n: number) => Array.from({ length: 1 + dice(n) }, () => signs[dice(signs.length)]).join("");
const lines = (text: string) => Text.of(text.split("\n"));

function random(length: number): ChangeSet {
  const found: { from: number; to: number; insert: Text }[] = [];
  for (let at = dice(length + 1); found.length < 1 + dice(3) && at <= length;) {
    const to = Math.min(length, at + dice(5));
    found.push({ from: at, to, insert: lines(dice(3) ? some(4) : "") });
    at = to + 1 + dice(6);
  }
  return ChangeSet.of(found, length);
}

function same(one: Text, other: Text, where: string): void {
  if (!one.eq(other)) throw new Error(`${where}: ${one} is not ${other}`);
}

for (let run = 0; run < 400; run++) {
  let shared = lines(some(30));
  let editor = shared;
  const draft = new Draft(shared.length);
  let waits = false;
  for (let step = 0; step < 60; step++) {
    const what = dice(9);
    const where = `run ${run}, step ${step}`;
    if (what < 3) {
      const changes = random(editor.length);
      draft.write(changes);
      editor = changes.apply(editor);
    } else if (what < 6) {
      const changes = random(shared.length);
      editor = draft.hear(changes).apply(editor);
      shared = changes.apply(shared);
    } else if (what < 8) {
      if (waits) draft.answered(dice(3) > 0);
      else same(draft.send().apply(shared), editor, where);
      waits = !waits;
    } else if (!waits) {
      const all = draft.isSent;
      editor = draft.drop(shared).apply(editor);
      if (all) same(editor, shared, `${where}: dropped`);
    }
    same(draft.changes.apply(shared), editor, where);
  }
}

// Undo takes back all that was typed, whatever others wrote meanwhile, and nothing of theirs; redo brings it back.
for (let run = 0; run < 400; run++) {
  const begun = lines(some(30));
  let editor = begun, theirs = begun, now = 0;
  const steps = new Steps(), draft = new Draft(begun.length);
  for (let step = 0; step < 12; step++) {
    const changes = ChangeSet.of({ from: dice(editor.length + 1), insert: lines(some(3)) }, editor.length);
    now += dice(2) * 600;
    steps.add(changes.invert(editor), null, now);
    draft.write(changes);
    editor = changes.apply(editor);
    const heard = ChangeSet.of({ from: dice(theirs.length + 1), insert: lines(some(3)) }, theirs.length);
    const moved = draft.hear(heard);
    steps.hear(moved);
    theirs = heard.apply(theirs);
    editor = moved.apply(editor);
  }
  const whole = editor;
  for (const way of ["undo", "redo"] as const) {
    for (let taken = steps.take(way); taken; taken = steps.take(way)) {
      steps.add(taken.invert(editor), way);
      draft.write(taken);
      editor = taken.apply(editor);
    }
    same(editor, way === "undo" ? theirs : whole, `run ${run}, ${way}`);
  }
}
console.log("all as it should be");
