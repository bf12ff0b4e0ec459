type Answer = { resolve: (value: any) => void; reject: (error: Error) => void };

/** What the server may ask of us, and tell. */
type Listener = { ask: (method: string, params: any) => Promise<object>; tell: (method: string) => void };

/** One program of Kakite that serves MCP, spoken to by lines of JSON-RPC. It is started by the first request. */
class Server {
	private process?: ChildProcess;
	private ready?: Promise<unknown>;
	private waiting = new Map<number, Answer>();
	private last = 0;

	constructor(
		readonly folder: string,
		private readonly program: string[],
		private readonly listener?: Listener,
	) {}

	async list(): Promise<any[]> {
		this.ready ??= this.start();
		await this.ready;
		return (await this.request("tools/list", {})).tools;
	}

	async call(name: string, args: object, signal?: AbortSignal): Promise<any> {
		this.ready ??= this.start();
		await this.ready;
		const id = this.last + 1;
		const cancel = () => this.send({ method: "notifications/cancelled", params: { requestId: id } });
		signal?.addEventListener("abort", cancel, { once: true });
		try {
			return await this.request("tools/call", { name, arguments: args });
		} finally {
			signal?.removeEventListener("abort", cancel);
		}
	}

	stop() {
		this.process?.stdin?.end();
		this.process = undefined;
		this.ready = undefined;
	}

	private start(): Promise<unknown> {
		const [command, ...rest] = this.program;
		const child = spawn(command, rest, { cwd: this.folder, stdio: ["pipe", "pipe", "ignore"] });
		this.process = child;
		const fail = (why: string) => {
			if (this.process === child) this.stop();
			for (const each of this.waiting.values()) each.reject(new Error(`kakite: ${why}`));
			this.waiting.clear();
		};
		child.on("error", (error) => fail(error.message));
		child.on("exit", () => fail("it has ended; is the folder one that it may use?"));
		child.stdin?.on("error", () => {});
		createInterface({ input: child.stdout! }).on("line", (line) => this.receive(JSON.parse(line)));
		const capabilities = this.listener ? { elicitation: {} } : {};
		const clientInfo = { name: "__CLIENT__-kakite", version: "1" };
		return this.request("initialize", { protocolVersion: "2025-06-18", capabilities, clientInfo }).then(() =>
			this.send({ method: "notifications/initialized" }),
		);
	}

	private request(method: string, params: object): Promise<any> {
		const id = ++this.last;
		return new Promise((resolve, reject) => {
			this.waiting.set(id, { resolve, reject });
			this.send({ id, method, params });
		});
	}

	private send(message: object) {
		this.process?.stdin?.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);
	}

	private receive(message: any) {
		if (message.method) return void this.hear(message);
		const answer = this.waiting.get(message.id);
		if (!answer) return;
		this.waiting.delete(message.id);
		if (message.error) answer.reject(new Error(message.error.message));
		else answer.resolve(message.result);
	}

	private async hear({ id, method, params }: any) {
		if (id === undefined) return this.listener?.tell(method);
		const unknown = { error: { code: -32601, message: `\`${method}\` is not known here` } };
		const failed = (error: Error) => ({ error: { code: -32603, message: error.message } });
		const asked = this.listener?.ask(method, params).then((result) => ({ result }), failed);
		this.send({ id, ...((await asked) ?? unknown) });
	}
}
