// Added by `kakite install pi`; `kakite install pi --uninstall` removes it.
// Gives pi's tools `read`, `edit` and `write` to `kakite serve`, which lands an edit right or not at all.
__MCP_IMPORTS__
import { isAbsolute, relative, resolve } from "node:path";
import { createReadTool, type ExtensionAPI, withFileMutationQueue } from "@earendil-works/pi-coding-agent";
import { Text } from "@earendil-works/pi-tui";
import { Type } from "typebox";

const GUIDELINES: string[] = __GUIDELINES__;
const LINES = 12; // that are shown of an answer, unless somebody asks for all

__MCP_CLIENT__
export default function (pi: ExtensionAPI) {
	let server: Server | undefined;

	async function forward(cwd: string, path: string | undefined, args: object, signal?: AbortSignal) {
		if (server?.folder !== cwd) {
			server?.stop();
			server = new Server(cwd, __PROGRAM__);
		}
		const reached = server;
		const send = () => reached.call("text_editor", path === undefined ? args : { path, ...args }, signal);
		const result = await (path === undefined ? send() : withFileMutationQueue(resolve(cwd, path), send));
		// What is thrown is an error to the model as well.
		if (result.isError) throw new Error(result.content.map((each: any) => each.text ?? "").join("\n"));
		return { content: result.content, details: undefined };
	}

	const strip = (path: string) => path.replace(/^@/, "");
	const Path = Type.String({ description: "Path to the file (relative or absolute)" });

	pi.registerTool({
		name: "read",
		label: "read",
		description: "Read a file with line numbers (they are not part of the text), a picture, or list a folder.",
		promptSnippet: "Read file contents",
		parameters: Type.Object({
			path: Path,
			offset: Type.Optional(Type.Integer({ minimum: 1, description: "Line to start at, from 1" })),
			limit: Type.Optional(Type.Integer({ minimum: 1, description: "How many lines" })),
		}),
		async execute(id, params, signal, onUpdate, ctx) {
			const path = strip(params.path);
			const below = relative(ctx.cwd, resolve(ctx.cwd, path));
			// Kakite stays in the folder; skills and the like lie elsewhere.
			if (below === ".." || below.startsWith("../") || isAbsolute(below))
				return createReadTool(ctx.cwd).execute(id, { ...params, path }, signal, onUpdate) as any;
			const first = params.offset ?? 1;
			const asked = params.offset !== undefined || params.limit !== undefined;
			const range = [first, params.limit === undefined ? -1 : first + params.limit - 1];
			return forward(ctx.cwd, path, { command: "view", ...(asked ? { view_range: range } : {}) }, signal);
		},
	});

	pi.registerTool({
		name: "edit",
		label: "edit",
		description:
			"Edit a file by quoting its text: each oldText must name one place. All edits of a call land, or none. " +
			"A refused edit has changed nothing, and its answer may have a suggestion, which `suggestion` accepts by its id.",
		promptSnippet: "Make precise file edits that land right or not at all",
		promptGuidelines: GUIDELINES.map((each) => `Of read, edit and write: ${each}`),
		parameters: Type.Object({
			path: Path,
			edits: Type.Optional(
				Type.Array(Type.Object({ oldText: Type.String(), newText: Type.String() }), { maxItems: 200 }),
			),
			suggestion: Type.Optional(Type.String({ description: "The id of a suggestion to accept, instead of edits" })),
		}),
		async execute(_id, params, signal, _onUpdate, ctx) {
			if (params.suggestion !== undefined)
				return forward(ctx.cwd, undefined, { command: "accept", suggestion: params.suggestion }, signal);
			const edits = (params.edits ?? []).map((each) => ({ old_str: each.oldText, new_str: each.newText }));
			return forward(ctx.cwd, strip(params.path), { command: "edit", edits }, signal);
		},
		// pi's own view looks for the place by itself, and says that it is not there where Kakite has found it.
		renderShell: "default",
		renderCall: (args, theme) =>
			new Text(`${theme.fg("toolTitle", theme.bold("edit"))} ${theme.fg("accent", String(args?.path ?? ""))}`, 0, 0),
		renderResult(result, { expanded }, theme, context) {
			const told = result.content.map((each: any) => each.text ?? "").join("\n").split("\n");
			const shown = expanded || told.length <= LINES ? told : [...told.slice(0, LINES), "…"];
			return new Text(theme.fg(context.isError ? "error" : "toolOutput", shown.join("\n")), 0, 0);
		},
	});

	pi.registerTool({
		name: "write",
		label: "write",
		description: "Create a file, or replace its whole content. To change a part of one, use edit.",
		promptSnippet: "Create or overwrite files",
		parameters: Type.Object({ path: Path, content: Type.String({ description: "The whole content" }) }),
		async execute(_id, params, signal, _onUpdate, ctx) {
			const args = { command: "create", file_text: params.content, overwrite: true };
			return forward(ctx.cwd, strip(params.path), args, signal);
		},
	});

	pi.on("session_shutdown", () => server?.stop());
}
