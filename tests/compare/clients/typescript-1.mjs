// The client of the TypeScript SDK v1, which knows only the legacy era. See driver.mjs.
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { SSEClientTransport } from '@modelcontextprotocol/sdk/client/sse.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import * as types from '@modelcontextprotocol/sdk/types.js';
import { CAPABILITIES, run, transportOf } from './driver.mjs';

const SDK = { SSEClientTransport, StdioClientTransport, StreamableHTTPClientTransport };

await run(async (target, peer) => {
  const client = new Client({ name: 'compare-ts1', version: '1.0.0' }, { capabilities: CAPABILITIES });
  for (const schema of [types.ElicitRequestSchema, types.CreateMessageRequestSchema, types.ListRootsRequestSchema])
    client.setRequestHandler(schema, async ({ method, params }) => peer.answer(method, params));
  client.fallbackNotificationHandler = async notice => peer.tell(notice);
  const transport = transportOf(SDK, target);
  const versions = [];
  const set = transport.setProtocolVersion?.bind(transport);
  transport.setProtocolVersion = version => (versions.push(version), set?.(version));
  await client.connect(transport);
  const callTool = client.callTool.bind(client);
  client.callTool = (params, options) => callTool(params, undefined, options);
  client.facts = () => ({
    protocolVersion: versions[0],
    capabilities: client.getServerCapabilities(),
    instructions: client.getInstructions(),
    serverInfo: client.getServerVersion(),
  });
  return client;
});
