// Added by `kakite install pi --host`; `kakite install pi --uninstall` removes it.
// Gives pi the tools of the project's MCP servers through `kakite host serve`, which asks you before each call.
__MCP_IMPORTS__
import type { ExtensionAPI, ExtensionContext } from "@earendil-works/pi-coding-agent";
import { Type } from "typebox";

const KAKITE: string[] = __PROGRAM__;
const LONG = 12; // rows that still stand above the answers

__MCP_CLIENT__
/** Shows a form of Kakite: its one choice, and why not, if you deny. */
async function ask(ctx: ExtensionContext, method: string, params: any): Promise<object> {
	const choices: string[] | undefined = params?.requestedSchema?.properties?.answer?.enum;
	if (method !== "elicitation/create" || !choices) throw new Error(`\`${method}\` is not known here`);
	const rows = String(params.message).split("\n");
	// A long question stays in the conversation, where you can scroll; its last row says what it is about.
	if (rows.length > LONG) ctx.ui.notify(params.message, "info");
	const answer = await ctx.ui.select(rows.length > LONG ? rows[rows.length - 1] : params.message, choices);
	if (answer === undefined) return { action: "cancel" };
	const reason = answer === choices[0] ? await ctx.ui.input("Why not? (the model is told; may stay empty)") : "";
	return { action: "accept", content: { answer, ...(reason ? { reason } : {}) } };
}

export default function (pi: ExtensionAPI) {
	let server: Server | undefined;
	let context: ExtensionContext | undefined;
	let ours = new Set<string>();

	async function offer(from: Server) {
		const tools = await from.list();
		const now = new Set<string>(tools.map((each) => each.name));
		for (const tool of tools) register(from, tool);
		pi.setActiveTools(pi.getActiveTools().filter((name) => now.has(name) || !ours.has(name)));
		ours = now;
		context?.ui.setStatus("kakite-host", `kakite host: ${now.size} tools`);
	}

	function register(from: Server, tool: any) {
		pi.registerTool({
			name: tool.name,
			label: tool.title ?? tool.name,
			description: tool.description ?? tool.name,
			parameters: Type.Unsafe<any>(tool.inputSchema),
			async execute(_id, params, signal, _onUpdate, ctx) {
				context = ctx;
				const result = await from.call(tool.name, params, signal);
				// What is thrown is an error to the model as well.
				if (result.isError) throw new Error(result.content.map((each: any) => each.text ?? "").join("\n"));
				return { content: result.content, details: undefined };
			},
		});
	}

	pi.on("session_start", async (_event, ctx) => {
		context = ctx;
		const listener: Listener = {
			ask: (method, params) => ask(context ?? ctx, method, params),
			tell: (method) => {
				if (method === "notifications/tools/list_changed") offer(started).catch(() => {});
			},
		};
		// Where nobody can be asked, Kakite is not told that somebody could.
		const started = new Server(ctx.cwd, [...KAKITE, "host", "serve"], ctx.hasUI ? listener : undefined);
		server = started;
		await offer(started).catch((error) => ctx.ui.notify(error.message, "error"));
	});

	pi.registerCommand("kakite-host", {
		description: "Show the states of the MCP servers; `/kakite-host logs` shows what they wrote",
		handler: async (args, ctx) => {
			const [command, ...rest] = KAKITE;
			const asked = args.trim().startsWith("logs") ? "logs" : "tools";
			const done = await pi.exec(command, [...rest, "host", asked, "--project", ctx.cwd]);
			ctx.ui.notify(`${done.stdout}${done.stderr}`.trim() || "nothing", done.code === 0 ? "info" : "error");
		},
	});

	pi.on("session_shutdown", () => {
		server?.stop();
		server = undefined;
	});
}
