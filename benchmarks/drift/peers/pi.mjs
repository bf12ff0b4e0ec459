// pi's `edit`: its own search and its own splice into the file. Its whole package does not install where the registry
// lacks packages of the same release, and this part needs none of them; the file is read and written as its tool does.

import { readFileSync, writeFileSync } from "node:fs";
import { load, serveFiles } from "./lines.mjs";

const pi = "@earendil-works/pi-coding-agent/dist";
const { applyEditsToNormalizedContent, applyReplacementsToOriginal, normalizeToLF } = await load(
  `${pi}/core/tools/edit-diff.js`,
);
const { splitBom } = await load(`${pi}/utils/text.js`);

await serveFiles((file, oldText, newText) => {
  const { bom, text } = splitBom(readFileSync(file).toString("utf-8"));
  const normal = normalizeToLF(text);
  const { newContent, replacements } = applyEditsToNormalizedContent(normal, [{ oldText, newText }], file);
  writeFileSync(file, bom + (text === normal ? newContent : applyReplacementsToOriginal(text, replacements)));
});
