// A client made with the TypeScript SDK: does each step that the first argument lists with the server that the rest
// starts, and prints the answers as JSON.
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";

const [steps, command, ...args] = process.argv.slice(2);
const client = new Client({ name: "session", version: "1.0.0" });
await client.connect(new StdioClientTransport({ command, args, stderr: "inherit" }));
const answers = [await client.listTools()];
for (const step of JSON.parse(steps)) {
  answers.push(await client.callTool(step));
}
await client.close();
console.log(JSON.stringify(answers));
