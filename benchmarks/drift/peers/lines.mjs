// The JSON lines of `kakite edit --jsonl` around a peer's own function, for peers that npm installs.
// NODE_PATH does not count for modules: the folder of the installed package is the first argument.

import { mkdtempSync, readFileSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

/** Load a module of the installed package by its path below `node_modules`. */
export function load(path) {
  return import(pathToFileURL(join(process.argv[2], "node_modules", path)).href);
}

/** Answer every line of standard input: `edit(path, search, replace)` changes the file, or throws for a refusal. */
export async function serveFiles(edit) {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), "drift-")));
  const file = join(folder, "file.txt");
  for await (const line of createInterface({ input: process.stdin })) {
    const request = JSON.parse(line);
    let told;
    try {
      writeFileSync(file, Buffer.from(request.text_b64, "base64"));
      for (const { search, replace } of request.edits) await edit(file, search, replace);
      told = { ok: true, text_b64: readFileSync(file).toString("base64") };
    } catch (error) {
      told = { ok: false, failures: [{ index: 0, code: error?.name ?? "Error" }] };
    }
    process.stdout.write(`${JSON.stringify({ id: request.id, ...told })}\n`);
  }
  rmSync(folder, { recursive: true });
  process.exit(0);
}
