// Own under random people: `node` runs it when a test has bundled it. What is confirmed and what is ours make the text.
import { ChangeSet, Text } from "@codemirror/state";
import { Own, rebased } from "./unsent";

declare const process: { argv: string[] };
let seed = Number(process.argv[2] ?? 1);
const dice = (n: number) => { seed = (seed * 48271) % 0x7fffffff; return seed % n; };
const signs = ["a", "b", "山", "\n", " ", "👩", "é"];
const some = (n: number) => Array.from({ length: 1 + dice(n) }, () => signs[dice(signs.length)]).join("");

function random(length: number): ChangeSet {
  const found: { from: number; to: number; insert: Text }[] = [];
  for (let at = dice(length + 1); found.length < 1 + dice(3) && at <= length;) {
    const to = Math.min(length, at + dice(5));
    found.push({ from: at, to, insert: Text.of((dice(3) ? some(4) : "").split("\n")) });
    at = to + 1 + dice(6);
  }
  return ChangeSet.of(found, length);
}

for (let run = 0; run < 400; run++) {
  let now = Text.of(some(30).split("\n"));
  const own = new Own(now);
  let waits = false;
  for (let step = 0; step < 60; step++) {
    const what = dice(8);
    if (what < 6) {
      const changes = random(now.length);
      now = changes.apply(now);
      if (what < 3) own.mine(changes);
      else own.theirs(changes);
    } else if (waits) { own.confirm(); waits = false; }
    else { own.ask(); waits = true; }
    if (!own.changes.apply(own.base).eq(now)) throw new Error(`run ${run}, step ${step}: ${own.changes.apply(own.base)} is not ${now}`);
    const { changes, left } = rebased(own.base, own.changes, now);
    if (!changes.apply(now).eq(now) && own.changes.empty) throw new Error(`run ${run}, step ${step}: something of nothing`);
    if (left.length && own.changes.empty) throw new Error("something is left of nothing");
    // On a text that has nothing of ours yet, and nothing new, all of it has its place.
    const whole = rebased(own.base, own.changes, own.base);
    if (whole.left.length || !whole.changes.apply(own.base).eq(now)) throw new Error(`run ${run}, step ${step}: not as written`);
  }
}
console.log("all as it should be");
