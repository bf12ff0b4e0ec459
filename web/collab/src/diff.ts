// What differs between a passage and what is suggested for it, by words (in Japanese and Chinese too).

/** `from`..`to` of the old text becomes `insert`. */
export interface Piece { from: number; to: number; insert: string }

const MOST = 1_200;  // words on a side; longer passages are shown as replaced whole
const words = new Intl.Segmenter(undefined, { granularity: "word" });

/** The pieces that turn `old` into `now`, in order; one for all where little of it stays. */
export function pieces(old: string, now: string): Piece[] {
  if (now.startsWith(old) && now !== old) return [{ from: old.length, to: old.length, insert: now.slice(old.length) }];
  if (now.endsWith(old) && now !== old) return [{ from: 0, to: 0, insert: now.slice(0, now.length - old.length) }];
  const a = split(old), b = split(now);
  let head = 0, tail = 0;
  while (head < a.length && head < b.length && a[head] === b[head]) head += 1;
  while (tail < a.length - head && tail < b.length - head && a[a.length - 1 - tail] === b[b.length - 1 - tail]) tail += 1;
  const [x, y] = [a.slice(head, a.length - tail), b.slice(head, b.length - tail)];
  const start = a.slice(0, head).join("").length;
  const whole = [{ from: start, to: start + x.join("").length, insert: y.join("") }];
  if (!x.length || !y.length) return x.length || y.length ? whole : [];
  if (x.length > MOST || y.length > MOST) return whole;
  const found = compare(x, y, start);
  const kept = x.join("").length - found.reduce((sum, each) => sum + each.to - each.from, 0);
  return found.length > 1 && kept < 0.4 * Math.min(x.join("").length, y.join("").length) ? whole : found;
}

function split(text: string): string[] {
  return text.length > 40_000 ? text.split(/(?<=\n)/) : Array.from(words.segment(text), (each) => each.segment);
}

/** The longest common subsequence of two lists of words, as the pieces between. */
function compare(x: string[], y: string[], start: number): Piece[] {
  const width = y.length + 1;
  const longest = new Uint16Array((x.length + 1) * width);
  for (let i = x.length - 1; i >= 0; i--)
    for (let j = y.length - 1; j >= 0; j--)
      longest[i * width + j] = x[i] === y[j]
        ? longest[(i + 1) * width + j + 1]! + 1
        : Math.max(longest[(i + 1) * width + j]!, longest[i * width + j + 1]!);
  const found: Piece[] = [];
  let at = start, from = start, insert = "";
  const flush = () => { if (at > from || insert) found.push({ from, to: at, insert }); insert = ""; };
  for (let i = 0, j = 0; i < x.length || j < y.length;) {
    if (i < x.length && j < y.length && x[i] === y[j]) {
      flush();
      at += x[i]!.length;
      from = at;
      i += 1, j += 1;
    } else if (j < y.length && (i === x.length || longest[i * width + j + 1]! > longest[(i + 1) * width + j]!)) {
      insert += y[j++];
    } else {
      at += x[i++]!.length;
    }
  }
  flush();
  return joined(found, x.join(""), start);
}

/** One piece where little stays between two: a phrase is easier to read than its words. */
function joined(found: Piece[], old: string, start: number): Piece[] {
  const size = (each: Piece) => Math.max(each.to - each.from, each.insert.length);
  const done: Piece[] = [];
  for (const next of found) {
    const last = done.at(-1);
    const kept = last && old.slice(last.to - start, next.from - start);
    if (last && kept !== undefined && (kept.length <= Math.min(size(last), size(next)) || !kept.trim()) && !kept.includes("\n")) {
      last.to = next.to;
      last.insert += kept + next.insert;
    } else done.push({ ...next });
  }
  return done.length < found.length ? joined(done, old, start) : done;
}
