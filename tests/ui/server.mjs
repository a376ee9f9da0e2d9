// A small MCP server (revision 2025-11-25, Streamable HTTP) whose tools the test changes while it runs.
//
// It keeps no session. A tool with `asks` sends an elicitation on the stream of its call and waits for the answer.

import { createServer } from 'node:http';

const PROTOCOL = '2025-11-25';

async function bodyOf(request) {
  const parts = [];
  for await (const part of request) parts.push(part);
  return Buffer.concat(parts).toString();
}

/**
 * Starts a server with `tools`: name → {definition, call(arguments) → result, asks}. `more` may have `resources` and `templates`
 * (lists), `contents(uri)`, `prompts` (a list) and `messages(name, arguments)`.
 */
export async function mcpServer(tools, more = {}) {
  const state = { tools, isFailing: false, calls: [] };
  const waiting = new Map();
  let asked = 0;

  async function called(message, response) {
    const { name, arguments: given } = message.params;
    state.calls.push({ name, given });
    const tool = state.tools[name];
    const progressToken = message.params._meta?.progressToken;
    const reply = (result) => ({ jsonrpc: '2.0', id: message.id, result });
    if (!tool.asks) return json(response, reply(await tool.call(given)));
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    const say = (value) => response.write(`data: ${JSON.stringify(value)}\n\n`);
    if (progressToken !== undefined) {
      say({ jsonrpc: '2.0', method: 'notifications/progress', params: { progressToken, progress: 1, total: 4, message: 'asking' } });
    }
    const id = `ask-${++asked}`;
    const answered = new Promise((resolve) => { waiting.set(id, resolve); });
    say({ jsonrpc: '2.0', id, method: 'elicitation/create', params: tool.asks });
    const answer = await answered;
    say(reply(await tool.call(given, answer)));
    response.end();
  }

  function json(response, value) {
    response.writeHead(200, { 'content-type': 'application/json' });
    response.end(JSON.stringify(value));
  }

  async function handle(request, response) {
    if (request.method !== 'POST') { response.writeHead(405); response.end(); return undefined; }
    const message = JSON.parse(await bodyOf(request));
    if (message.method === undefined) {
      waiting.get(message.id)?.(message.result ?? message.error);
      response.writeHead(202); response.end();
      return undefined;
    }
    if (message.id === undefined) { response.writeHead(202); response.end(); return undefined; }
    if (message.method === 'initialize') {
      const capabilities = { tools: {}, ...(more.resources && { resources: {} }), ...(more.prompts && { prompts: {} }) };
      const result = { protocolVersion: PROTOCOL, capabilities, serverInfo: { name: 'test', version: '1' } };
      return json(response, { jsonrpc: '2.0', id: message.id, result });
    }
    if (message.method === 'ping') return json(response, { jsonrpc: '2.0', id: message.id, result: {} });
    const { uri, name, arguments: given } = message.params ?? {};
    const others = {
      'resources/list': () => ({ resources: more.resources }), 'resources/templates/list': () => ({ resourceTemplates: more.templates ?? [] }),
      'resources/read': () => ({ contents: more.contents(uri) }),
      'prompts/list': () => ({ prompts: more.prompts }), 'prompts/get': () => ({ messages: more.messages(name, given) }),
    };
    if (others[message.method]) return json(response, { jsonrpc: '2.0', id: message.id, result: others[message.method]() });
    if (message.method === 'tools/list') {
      const list = Object.entries(state.tools).map(([name, tool]) => ({ name, ...tool.definition }));
      return json(response, { jsonrpc: '2.0', id: message.id, result: { tools: list } });
    }
    if (message.method === 'tools/call') {
      if (state.isFailing) { response.writeHead(503, { 'content-type': 'text/html' }); response.end('<script>window.pwned = 1</script>out of order'); return undefined; }
      return called(message, response);
    }
    return json(response, { jsonrpc: '2.0', id: message.id, error: { code: -32601, message: 'no such method' } });
  }

  const server = createServer((request, response) => handle(request, response).catch((error) => response.destroy(error)));
  await new Promise((resolve) => { server.listen(0, '127.0.0.1', resolve); });
  state.url = `http://127.0.0.1:${server.address().port}/mcp`;
  state.close = () => { server.closeAllConnections(); server.close(); };
  return state;
}
