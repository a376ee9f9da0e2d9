// The client of the TypeScript SDK v2: as it is by default, which is the legacy era, or with `auto`. See driver.mjs.
import { Client, SSEClientTransport, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { CAPABILITIES, run, transportOf } from './driver.mjs';

const SDK = { SSEClientTransport, StdioClientTransport, StreamableHTTPClientTransport };

await run(async (target, peer, mode) => {
  const options = { capabilities: CAPABILITIES, versionNegotiation: { mode } };
  const client = new Client({ name: 'compare-ts2', version: '1.0.0' }, options);
  for (const method of ['elicitation/create', 'sampling/createMessage', 'roots/list'])
    client.setRequestHandler(method, async ({ params }) => peer.answer(method, params));
  client.fallbackNotificationHandler = async notice => peer.tell(notice);
  await client.connect(transportOf(SDK, target));
  client.facts = () => ({
    protocolVersion: client.getNegotiatedProtocolVersion(),
    capabilities: client.getServerCapabilities(),
    instructions: client.getInstructions(),
    serverInfo: client.getServerVersion(),
  });
  return client;
});
