// Plays a plan with @modelcontextprotocol/client 2.x, of the revision that it names: node client_2.mjs plan.json

import { readFileSync } from 'node:fs';

import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';

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
const client = new Client(
  { name: 'acceptance', version: '1' },
  {
    capabilities: { elicitation: { form: {} } },
    versionNegotiation: { mode: plan.mode },
    supportedProtocolVersions: [plan.revision],
  },
);
client.setRequestHandler('elicitation/create', async ({ params }) => human.fillIn(params));
await client.connect(transport);
const revision = client.getNegotiatedProtocolVersion();
const server = client.getServerVersion().name;
const { tools } = await client.listTools();
const call = async (name, args) => (await client.callTool({ name, arguments: args })).structuredContent;
const played = await play(plan, call);
await transport.terminateSession?.();
await client.close();

const about = { revision, server, tools: tools.map(tool => tool.name) };
console.log(JSON.stringify({ ...about, ...played, forms: human.seen, beside }));
