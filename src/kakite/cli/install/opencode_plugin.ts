// Added by `kakite install opencode`; `kakite install opencode --uninstall` removes it.
// Gives opencode's tools `edit`, `write` and `apply_patch` to `kakite serve`, which lands an edit right or not at all.
__MCP_IMPORTS__
import { relative, resolve } from "node:path";

const RULES: string[] = __GUIDELINES__;

__MCP_CLIENT__
const text = (description: string) => ({ type: "string", description });
const FILE = text("Path to the file (absolute, or relative to the folder)");
const SUGGESTION = text("The id of a suggestion to accept, instead of anything else");
const PAIR = {
	type: "object",
	properties: { oldString: text("The text as it stands in the file"), newString: text("What replaces it") },
	required: ["oldString", "newString"],
};

/** What the tools take, and what of it they cannot do without: opencode by itself takes all for required. */
const TOOLS: Record<string, { description: string; args: Record<string, object>; required: string[] }> = {
	edit: {
		description:
			"Edit a file by quoting its text: each oldString must name one place. All edits of a call land, or none. " +
			`Its answer may have a suggestion, which \`suggestion\` accepts by its id.\n${RULES.join("\n")}`,
		args: { filePath: FILE, edits: { type: "array", items: PAIR, maxItems: 200 }, suggestion: SUGGESTION },
		required: [],
	},
	write: {
		description: "Create a file, or replace its whole content after you read it. To change a part of one, use edit.",
		args: { filePath: FILE, content: text("The whole content") },
		required: ["filePath", "content"],
	},
	apply_patch: {
		description:
			"Apply a patch to files, whole or not at all: `*** Begin Patch`, then for each file `*** Add File: PATH` with " +
			"`+` lines, `*** Delete File: PATH`, or `*** Update File: PATH` (and `*** Move to: PATH`) with hunks: `@@`, then " +
			"lines that begin with a blank, `-` or `+`; at last `*** End Patch`. " +
			`Its answer may have a suggestion, which \`suggestion\` accepts by its id.\n${RULES.join("\n")}`,
		args: { patchText: text("The whole patch"), suggestion: SUGGESTION },
		required: [],
	},
};

const findFiles = (text: string, pattern: RegExp) => [...text.matchAll(pattern)].map((each) => each[1]);
const IN_PATCH = /^\*\*\* (?:(?:Add|Update|Delete) File|Move to): *(.+?)\s*$/gm;
const IN_DIFF = /^\+\+\+ b\/(.+)$/gm;

export const KakitePlugin = async ({ directory, worktree }: { directory: string; worktree: string }) => {
	const more = worktree === "/" || worktree === directory ? [] : ["--root", worktree];
	const serve = (...words: string[]) => new Server(directory, [...__PROGRAM__, ...more, ...words]);
	// In each of them edits have another form. A server is started by its first call.
	const servers = { edit: serve(), apply_patch: serve("--edit-format", "patch") };
	/** The one whose form the model writes. */
	let current = servers.edit;

	/** What Kakite calls a file: its path from the folder, or the whole one where it lies beside the folder. */
	function locate(file: string) {
		const below = relative(directory, resolve(directory, file));
		return below.startsWith("..") ? resolve(directory, file) : below;
	}

	async function call(server: Server, tool: string, args: object, signal?: AbortSignal) {
		const result = await server.call(tool, args, signal);
		const output = result.content.map((each: any) => each.text ?? "").join("\n");
		// What is thrown is an error to the model as well.
		if (result.isError) throw new Error(output);
		return { output, diff: result._meta?.["kakite/details"]?.diff ?? "" };
	}

	/** Make a change, if the person's rules for `edit` allow it, or the person does when asked. */
	async function change(server: Server, tool: string, args: object, context: any, files?: string[]) {
		const { diff } = await call(server, tool, { ...args, preview: true }, context.abort);
		const paths = (files ?? findFiles(diff, IN_DIFF)).map((each) => resolve(directory, each));
		const patterns = paths.map((each) => relative(worktree, each));
		const metadata = { filepath: paths.join(", "), diff };
		await context.ask({ permission: "edit", patterns, always: ["*"], metadata });
		const { output } = await call(server, tool, args, context.abort);
		return { title: patterns.join(", "), output, metadata: { diff } };
	}

	const accept = (server: Server, suggestion: string, context: any) =>
		change(server, "text_editor", { command: "accept", suggestion }, context);

	const execute: Record<string, (args: any, context: any) => Promise<object>> = {
		async edit({ filePath, edits, suggestion }, context) {
			if (suggestion) return accept(servers.edit, suggestion, context);
			const pairs = (edits ?? []).map((each: any) => ({ old_str: each.oldString, new_str: each.newString }));
			const args = { command: "edit", path: locate(filePath), edits: pairs };
			return change(servers.edit, "text_editor", args, context, [filePath]);
		},
		async write({ filePath, content }, context) {
			const args = { command: "create", path: locate(filePath), file_text: content, overwrite: true };
			return change(current, "text_editor", args, context, [filePath]);
		},
		async apply_patch({ patchText, suggestion }, context) {
			if (suggestion) return accept(servers.apply_patch, suggestion, context);
			const files = findFiles(patchText, IN_PATCH);
			return change(servers.apply_patch, "apply_patch", { patch: patchText }, context, files);
		},
	};

	return {
		tool: Object.fromEntries(
			Object.entries(TOOLS).map(([id, { description, args }]) => [id, { description, args, execute: execute[id] }]),
		),
		async "tool.definition"({ toolID }: { toolID: string }, output: any) {
			if (toolID === "edit" || toolID === "apply_patch") current = servers[toolID];
			if (toolID in TOOLS) output.jsonSchema = { ...output.jsonSchema, required: TOOLS[toolID].required };
		},
		/** Let Kakite know what the model has read, so that it can tell what others changed since. */
		async "tool.execute.after"({ tool, args }: { tool: string; args: any }) {
			if (tool !== "read") return;
			const first = args.offset || 1;
			const range = args.offset || args.limit ? { view_range: [first, args.limit ? first + args.limit - 1 : -1] } : {};
			// It may lie outside of the folder, or be no text.
			await call(current, "text_editor", { command: "view", path: locate(args.filePath), ...range }).catch(() => {});
		},
	};
};
