// Calls one tool with a client of the TypeScript SDK, after listing the tools so that results are checked against their
// output schemas. Prints the result as JSON. Arguments: where the SDK is installed, its major version, the tool, its
// arguments as JSON, and the command of the server.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [folder, version, tool, args, command, ...options] = process.argv.slice(2);
const modules = {
  1: ["@modelcontextprotocol/sdk/client/index.js", "@modelcontextprotocol/sdk/client/stdio.js"],
  2: ["@modelcontextprotocol/client", "@modelcontextprotocol/client/stdio"],
}[version];
const { resolve } = createRequire(`${folder}/package.json`);
const [{ Client }, { StdioClientTransport }] = await Promise.all(
  modules.map((name) => import(pathToFileURL(resolve(name)).href)),
);

const client = new Client({ name: "typescript", version: "1" });
await client.connect(new StdioClientTransport({ command, args: options, env: process.env }));
await client.listTools();
console.log(JSON.stringify(await client.callTool({ name: tool, arguments: JSON.parse(args) })));
await client.close();
