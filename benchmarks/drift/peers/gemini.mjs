// gemini-cli's `replace`, without asking a model to mend an edit: its own search, and its own check of what was found.
// Reading and writing the file are done here as its tool does them.

import { readFileSync, writeFileSync } from "node:fs";
import { load, serveFiles } from "./lines.mjs";

const core = "@google/gemini-cli-core/dist/src";
const { calculateReplacement, getErrorReplaceResult } = await load(`${core}/tools/edit.js`);
const { detectLineEnding } = await load(`${core}/utils/textUtils.js`);
const config = { getUsageStatisticsEnabled: () => false, getDisableLLMCorrection: () => true };

await serveFiles(async (file, old_string, new_string) => {
  const params = { file_path: file, old_string, new_string, instruction: "" };
  const read = readFileSync(file, "utf-8");
  const currentContent = read.replace(/\r\n/g, "\n");
  const found = await calculateReplacement(config, { params, currentContent });
  const failed = getErrorReplaceResult(params, found.occurrences, found.finalOldString, found.finalNewString);
  if (failed) throw new Error(failed.raw);
  const crlf = detectLineEnding(read) === "\r\n";
  writeFileSync(file, crlf ? found.newContent.replace(/\r?\n/g, "\r\n") : found.newContent);
});
