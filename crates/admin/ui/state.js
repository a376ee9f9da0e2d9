// What the gateway said last, and the history of rates and durations. Asked again every two seconds while the page is
// visible.

import { get } from './api.js';

const EVERY_MS = 2000;
const KEPT = 60;

/** The last answers. */
export const state = { servers: null, breakers: new Map(), failure: null };
const history = new Map();
const watchers = new Set();
let last = null;
let timer;
let isRunning = false;

/** Calls `watcher` after each answer, until the returned function is called. */
export function watch(watcher) {
  watchers.add(watcher);
  return () => watchers.delete(watcher);
}

/** Calls that failed on the way, that the server refused, and whose tool reported an error. */
export function errorsOf({ failures, rpc_errors: refused, tool_errors: ofTools }) {
  return failures + refused + ofTools;
}

/** The history of a server: `{rate: [], errors: [], p50: [], p99: []}`, oldest first. */
export function historyOf(name) {
  if (!history.has(name)) history.set(name, { rate: [], errors: [], p50: [], p99: [] });
  return history.get(name);
}

function push(list, value) {
  list.push(value);
  if (list.length > KEPT) list.shift();
}

function note(servers) {
  const now = { at: performance.now(), counts: new Map() };
  const names = new Set(servers.map((server) => server.name));
  for (const name of history.keys()) if (!names.has(name)) history.delete(name);
  for (const server of servers) {
    const counts = [server.counters.calls, errorsOf(server.counters)];
    now.counts.set(server.name, counts);
    const kept = historyOf(server.name);
    const before = last?.counts.get(server.name);
    if (before === undefined) continue;
    const seconds = (now.at - last.at) / 1000;
    const [calls, errors] = counts.map((count, at) => Math.max(0, count - before[at]) / seconds);
    push(kept.rate, calls);
    push(kept.errors, errors);
    push(kept.p50, server.latency?.p50_ms ?? null);
    push(kept.p99, server.latency?.p99_ms ?? null);
  }
  last = now;
}

/** Asks the gateway now. */
export async function refresh() {
  if (isRunning) return;
  isRunning = true;
  try {
    const [servers, breakers] = await Promise.all([get('/servers'), get('/circuit-breakers')]);
    note(servers.servers);
    state.servers = servers.servers;
    state.breakers = new Map(breakers.circuit_breakers.map((breaker) => [breaker.server, breaker]));
    state.failure = null;
  } catch (error) {
    state.failure = error;
  } finally {
    isRunning = false;
  }
  for (const watcher of [...watchers]) watcher();
}

function tick() {
  clearTimeout(timer);
  if (document.visibilityState !== 'visible') return;
  refresh().finally(() => { timer = setTimeout(tick, EVERY_MS); });
}

/** Begins to ask. A hidden page does not ask, so its session ends when it is idle. */
export function start() {
  document.addEventListener('visibilitychange', tick);
  tick();
}

/** Stops asking. */
export function stop() {
  document.removeEventListener('visibilitychange', tick);
  clearTimeout(timer);
}

/** The server of this name, as last seen. */
export function serverOf(name) {
  return state.servers?.find((server) => server.name === name);
}
