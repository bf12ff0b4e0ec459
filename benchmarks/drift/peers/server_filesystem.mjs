// `edit_file` of the reference file server: the function that its tool calls.

import { load, serveFiles } from "./lines.mjs";

const { applyFileEdits } = await load("@modelcontextprotocol/server-filesystem/dist/lib.js");
await serveFiles((file, oldText, newText) => applyFileEdits(file, [{ oldText, newText }], false));
