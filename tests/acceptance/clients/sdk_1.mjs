// Plays a plan with @modelcontextprotocol/sdk 1.x: node sdk_1.mjs plan.json

import { readFileSync } from 'node:fs';

import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { ElicitRequestSchema } from '@modelcontextprotocol/sdk/types.js';

import { Human, noting, play } from './playing.mjs';

const plan = JSON.parse(readFileSync(process.argv[2], 'utf8'));
const human = new Human(plan.forms);
const beside = [];

function transportTo({ url, token, ...program }) {
  if (!url) return new StdioClientTransport(program);
  const requestInit = { headers: { Authorization: `Bearer ${token}` } };
  return new StreamableHTTPClientTransport(new URL(url), { requestInit, fetch: noting(beside) });
}

const transport = transportTo(plan.server);
// The client tells the revision to its transport and to nobody else.
let revision;
const taken = transport.setProtocolVersion?.bind(transport);
transport.setProtocolVersion = agreed => {
  revision = agreed;
  taken?.(agreed);
};

const client = new Client({ name: 'acceptance', version: '1' }, { capabilities: { elicitation: {} } });
client.setRequestHandler(ElicitRequestSchema, async ({ params }) => human.fillIn(params));
await client.connect(transport);
const { tools } = await client.listTools();
const call = async (name, args) => (await client.callTool({ name, arguments: args })).structuredContent;
const played = await play(plan, call);
await transport.terminateSession?.();
await client.close();

const about = { revision, server: client.getServerVersion().name, tools: tools.map(tool => tool.name) };
console.log(JSON.stringify({ ...about, ...played, forms: human.seen, beside }));
