// Uses the generated TypeScript client as a program would: typed answers, typed problems, pages, streams.
//
// `client.js BASE CALLER_KEY ADMIN_KEY`. Keys are empty at a gateway without authentication. `tsc --strict` compiles this
// file together with the client. The generated client reads event streams itself; the types of their data are generated.

import { deepEqual, equal, match, ok } from 'node:assert/strict';
import { createClient, type Client } from './switchyard-client/client';
import {
  answerQuestion, approveTools, callTool, disableServer, enableServer, getConfiguration, getLogin, getPrompt, getServer,
  health, listCircuitBreakers, listPrompts, listResources, listResourceTemplates, listServers, listServerTools, listTools,
  live, logIn, metrics, readResource, ready, reconnectServer, reload, resetCircuitBreaker, serverHealth, watchEvents,
} from './switchyard-client';
import type {
  CallAnswer, CallEndedEvent, CallEvent, CallRequest, Code, MessageEvent, Problem, ProgressEvent, QuestionAnswer,
  QuestionEvent,
} from './switchyard-client';

/** What every generated function returns. */
interface Returned<Data> { data?: Data; error?: unknown; response?: Response }

/** The data of a successful answer. */
function good<Data>({ data, error }: Returned<Data>): NonNullable<Data> {
  equal(error, undefined, JSON.stringify(error));
  ok(data !== undefined && data !== null);
  return data;
}

/** The problem that an answer must have. */
function problem({ error, response }: { error?: Problem; response?: Response }, status: number, code: Code): Problem {
  ok(error && response, 'no problem');
  deepEqual([response.status, error.status, error.code], [status, status, code], JSON.stringify(error));
  equal(error.request_id, response.headers.get('x-request-id'));
  equal(error.type, `/docs/errors#${code}`);
  ok(error.title && error.detail && error.hint);
  return error;
}

const request = (tool: string, given: Record<string, unknown> = {}, server = 'issues'): CallRequest =>
  ({ tool, server, arguments: given, timeout: 30 });

async function servers(client: Client): Promise<void> {
  const listed = good(await listServers({ client })).servers;
  deepEqual(listed.map((server) => server.name), ['issues', 'handbook', 'gone', 'accounts']);
  const issues = good(await getServer({ client, path: { name: 'issues' } }));
  deepEqual([issues.transport, issues.state, issues.breaker], ['stdio', 'ready', 'closed']);
  deepEqual([issues.tool_count, issues.last_error, issues.changed_tools], [3, null, undefined]);
  const unknown = problem(await getServer({ client, path: { name: 'isues' } }), 404, 'server_not_found');
  deepEqual([unknown.nearest, unknown.retryable], [['issues'], false]);
  equal(good(await serverHealth({ client, query: { check: true } })).status, 'degraded');
}

async function tools(client: Client): Promise<void> {
  const whole = await listTools({ client });
  ok(good(whole).tools.length > 3);
  const tag = whole.response?.headers.get('etag') ?? '';
  const again = await listTools({ client, headers: { 'If-None-Match': tag } });
  equal(again.response?.status, 304);
  const ofServer: string[] = [];
  let cursor: string | undefined;
  do {
    const page = good(await listTools({ client, query: { server: 'issues', limit: 1, cursor } }));
    ofServer.push(...page.tools.map((tool) => tool.tool));
    cursor = page.next_cursor;
  } while (cursor !== undefined);
  deepEqual(ofServer, ['create_issue', 'refuse', 'book']);
  const found = good(await listTools({ client, query: { query: 'ISSUE title' } })).tools;
  deepEqual([found[0].server, found[0].name], ['issues', 'create_issue']);
  equal(good(await listServerTools({ client, path: { name: 'issues' } })).tools.length, 3);
  problem(await listTools({ client, query: { limit: 0 } }), 400, 'invalid_request');
}

async function calls(client: Client): Promise<void> {
  const called = await callTool({ client, body: request('create_issue', { title: 'The door' }) });
  const answer = good(called);
  deepEqual([answer.success, answer.server, answer.tool, answer.code], [true, 'issues', 'create_issue', undefined]);
  deepEqual([answer.server_name, answer.tool_name], ['issues', 'create_issue']);
  deepEqual([answer.structured_content, answer.data], [{ issue_id: 'issue The door' }, { issue_id: 'issue The door' }]);
  equal(answer.request_id, called.response?.headers.get('x-request-id'));
  equal(Number(answer.execution_time_ms.toFixed(3)), answer.execution_time_ms);
  const refused = good(await callTool({ client, body: request('refuse') }));
  deepEqual([refused.success, refused.code, refused.error], [false, 'tool_error', 'the title is taken']);
  const unknown = problem(await callTool({ client, body: request('crate_issue') }), 404, 'tool_not_found');
  deepEqual([unknown.server, unknown.tool, unknown.nearest], ['issues', 'crate_issue', ['create_issue']]);
  const wrong = problem(await callTool({ client, body: { tool: 'book', timeout: 0 } }), 400, 'invalid_request');
  equal(wrong.errors?.[0].field, 'timeout');
}

async function offers(client: Client): Promise<void> {
  const notes = good(await listResources({ client, query: { server: 'issues' } })).items;
  deepEqual([notes[0].name, notes[0].definition.mimeType], ['file:///notes.txt', 'text/plain']);
  equal(good(await listResourceTemplates({ client })).items[0].name, 'issue:///{id}');
  const read = good(await readResource({ client, body: { uri: 'file:///notes.txt' } }));
  equal(read.server, 'issues');
  match(JSON.stringify(read.result.contents), /the harvest was good/);
  equal(good(await listPrompts({ client })).items[0].name, 'summarize');
  const prompt = good(await getPrompt({ client, path: { name: 'summarize' }, body: { arguments: { topic: 'doors' } } }));
  match(JSON.stringify(prompt.result.messages), /Summarize doors/);
  problem(await readResource({ client, body: { uri: 'file:///no' } }), 404, 'not_found');
}

async function breakers(client: Client): Promise<void> {
  for (let call = 0; call < 6; call += 1) {
    const { error } = await callTool({ client, body: request('any', {}, 'gone') });
    ok(error?.code === 'connection_failed' || error?.code === 'circuit_open', JSON.stringify(error));
  }
  equal(good(await listCircuitBreakers({ client })).circuit_breakers.length, 4);
  const closed = good(await resetCircuitBreaker({ client, path: { name: 'gone' } }));
  deepEqual([closed.state, closed.failure_count, closed.probe_in_ms], ['closed', 0, null]);
}

async function operations(client: Client): Promise<void> {
  const path = { name: 'issues' };
  equal(good(await reconnectServer({ client, path })).state, 'ready');
  equal(good(await disableServer({ client, path })).state, 'disabled');
  problem(await callTool({ client, body: request('book') }), 503, 'server_unavailable');
  equal(good(await enableServer({ client, path })).state, 'ready');
  equal(good(await approveTools({ client, path, query: { current: true } })).changed_tool_count, 0);
  ok(good(await reload({ client })).unchanged.includes('issues'));
  ok('mcp_servers' in good(await getConfiguration({ client })).configuration);
  match(good(await logIn({ client, path: { name: 'accounts' } })).url, /^http/);
  problem(await getLogin({ client, path }), 409, 'login_not_possible');
  match(String(good(await metrics({ client, parseAs: 'text' }))), /switchyard_/);
}

async function liveEvents(client: Client): Promise<void> {
  const abort = new AbortController();
  // Makes calls until the stream shows one, because the stream is open only after its first byte.
  let calling = true;
  const caller = (async () => {
    while (calling) good(await callTool({ client, body: request('create_issue', { title: 'seen' }) }));
  })();
  const query = { server: 'issues', kind: 'call_ended' };
  const { stream } = await watchEvents({ client, query, signal: abort.signal, sseMaxRetryAttempts: 1 });
  for await (const data of stream) {
    const ended = data as CallEndedEvent;
    deepEqual([ended.tool, ended.outcome, ended.code], ['create_issue', 'ok', null]);
    deepEqual([ended.client, ended.attempts[0].attempt], ['REST', 1]);
    break;
  }
  abort.abort();
  calling = false;
  await caller;
}

async function streamedCall(client: Client): Promise<void> {
  const seen: string[] = [];
  let call = '';
  let answering: Promise<unknown> = Promise.resolve();
  const answer = async (question: QuestionEvent): Promise<void> => {
    deepEqual([question.server, question.kind, question.request.message], ['issues', 'elicitation', 'Where to?']);
    const body: QuestionAnswer = { id: question.id, result: { action: 'accept', content: { city: 'Oslo' } } };
    equal((await answerQuestion({ client, path: { call }, body })).response?.status, 204);
  };
  const { stream } = await client.sse.post({
    url: '/api/v1/mcp/call',
    body: request('book'),
    security: [{ scheme: 'bearer', type: 'http' }],
    headers: { Accept: 'text/event-stream', 'Content-Type': 'application/json' },
    sseMaxRetryAttempts: 1,
    onSseEvent({ event, data }) {
      if (event === undefined) return;
      seen.push(event);
      if (event === 'call') call = (data as CallEvent).call;
      if (event === 'progress') equal((data as ProgressEvent).message, 'asking');
      if (event === 'message') equal((data as MessageEvent).logger, 'issues');
      if (event === 'question') answering = answer(data as QuestionEvent);
      if (event === 'result') equal((data as CallAnswer).data, 'booked 1 bags to Oslo, economy');
    },
  });
  for await (const _ of stream);
  await answering;
  deepEqual([seen[0], seen.at(-1)], ['call', 'result']);
  for (const event of ['progress', 'message', 'question']) ok(seen.includes(event), `no ${event}: ${seen}`);
}

async function everybody(client: Client): Promise<void> {
  equal(good(await live({ client })).status, 'alive');
  equal(good(await ready({ client })).status, 'ready');
  ok(good(await health({ client })).version);
}

async function rights(baseUrl: string, caller: Client): Promise<void> {
  const nobody = createClient({ baseUrl });
  await everybody(nobody);
  const refused = await listServers({ client: nobody });
  problem(refused, 401, 'unauthorized');
  match(refused.response?.headers.get('www-authenticate') ?? '', /^Bearer/);
  problem(await resetCircuitBreaker({ client: caller, path: { name: 'issues' } }), 403, 'forbidden');
}

async function main(): Promise<void> {
  const [baseUrl, callerKey, adminKey] = process.argv.slice(2);
  const [caller, admin] = [callerKey, adminKey].map((key) => createClient({ baseUrl, auth: () => key || undefined }));
  for (const step of [everybody, servers, tools, calls, offers, streamedCall, liveEvents]) await step(caller);
  for (const step of [breakers, operations]) await step(admin);
  if (callerKey) await rights(baseUrl, caller);
}

void main();
