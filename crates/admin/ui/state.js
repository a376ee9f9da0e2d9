// What the gateway said last, and the rates and durations of the last 15 minutes. Asked again while the page is visible: every
// two seconds while something happens, and less often the longer nothing does. What did not change is not sent again. The time before the page was opened comes from the history of calls, if the visitor may see all of it.

import { get, getIfChanged, may, pastCalls } from './api.js';

const EVERY_MS = 2000;
const SELDOM_MS = 8000;
/** Time of one point of the charts, and how many there are. */
const STEP_MS = 15000;
const KEPT = 60;
/** Time that the charts show. */
export const SPAN_MS = STEP_MS * KEPT;
/** Pages of the history for the time before the page was opened, each with 1,000 calls. */
const PAGES = 3;

/** Time after which a request counts as not answered. */
const LIMIT_MS = 10000;

/** The last answers, and when they came. */
export const state = { servers: null, breakers: new Map(), failure: null, at: null };
const history = new Map();
const watchers = new Set();
let last = null;
let timer;
let pause = EVERY_MS;
let isRunning = false;
let hasBegun = false;

/** Calls `watcher` after each answer, until the returned function is called. */
export function watch(watcher) {
  watchers.add(watcher);
  return () => watchers.delete(watcher);
}

/** Calls that failed on the way, that the server refused, and whose tool reported an error. */
export function errorsOf({ failures, rpc_errors: refused, tool_errors: ofTools }) {
  return failures + refused + ofTools;
}

/** The history of a server: `{at: [], rate: [], errors: [], p50: [], p99: []}`, oldest first; `at` has the times. */
export function historyOf(name) {
  if (!history.has(name)) history.set(name, { at: [], rate: [], errors: [], p50: [], p99: [] });
  return history.get(name);
}

/** Adds a point, or the last one again with what is known now. */
function put(list, value, isNew) {
  if (!isNew) list.pop();
  list.push(value);
  if (list.length > KEPT) list.shift();
}

function note(servers) {
  const now = { at: performance.now(), counts: new Map(), isEmpty: true };
  const names = new Set(servers.map((server) => server.name));
  for (const name of history.keys()) if (!names.has(name)) history.delete(name);
  for (const server of servers) {
    const counts = [server.counters.calls, errorsOf(server.counters)];
    now.counts.set(server.name, counts);
    const before = last?.counts.get(server.name);
    if (before === undefined) continue;
    const kept = historyOf(server.name);
    const isNew = last.isEmpty || kept.rate.length === 0;
    const seconds = (now.at - last.at) / 1000;
    const [calls, errors] = counts.map((count, at) => Math.max(0, count - before[at]) / seconds);
    put(kept.at, Date.now(), isNew);
    put(kept.rate, calls, isNew);
    put(kept.errors, errors, isNew);
    put(kept.p50, server.recent_calls?.p50_ms ?? null, isNew);
    put(kept.p99, server.recent_calls?.p99_ms ?? null, isNew);
  }
  if (last) last.isEmpty = false;
  if (!last || now.at - last.at >= STEP_MS) last = now;
}

/** Adds the points before those that were asked for. Nothing is added for a time of which not every call is known. */
async function begin() {
  if (!may('superuser')) return;
  const opened = Date.now();
  const calls = [];
  let cursor = null;
  try {
    for (let page = 0; page === 0 || (cursor && page < PAGES); page += 1) {
      const found = await pastCalls({ since: '15m', limit: 1000 }, cursor);
      calls.push(...found.calls);
      cursor = found.next_cursor ?? null;
    }
  } catch { return; }
  const known = cursor ? opened - Date.parse(calls.at(-1)?.at ?? opened) : SPAN_MS;
  const points = Math.min(KEPT - 1, Math.floor(known / STEP_MS));
  const servers = new Map();
  for (const call of calls) {
    const at = points - 1 - Math.floor((opened - Date.parse(call.at)) / STEP_MS);
    if (at < 0 || at >= points) continue;
    if (!servers.has(call.server)) servers.set(call.server, Array.from({ length: points }, () => []));
    servers.get(call.server)[at].push(call);
  }
  // A call without an attempt was refused here.
  const isError = ({ outcome, attempts }) => outcome === 'rpc_error' || outcome === 'tool_error' || (outcome === 'failed' && attempts.length > 0);
  const part = (found, q) => (found.length === 0 ? null : found.map((call) => call.duration_ms).sort((a, b) => a - b)[Math.ceil(q * found.length) - 1]);
  for (const { name } of state.servers ?? []) {
    const steps = servers.get(name) ?? Array.from({ length: points }, () => []);
    const seconds = STEP_MS / 1000;
    const before = { at: steps.map((_, at) => opened - (points - 1 - at) * STEP_MS), rate: steps.map((found) => found.length / seconds), errors: steps.map((found) => found.filter(isError).length / seconds),
      p50: steps.map((found) => part(found, 0.5)), p99: steps.map((found) => part(found, 0.99)) };
    const kept = historyOf(name);
    for (const key of Object.keys(kept)) kept[key] = [...before[key], ...kept[key]].slice(-KEPT);
  }
  for (const watcher of [...watchers]) watcher();
}

/** Options of a request that ends if the gateway falls silent. */
const limited = () => ({ signal: AbortSignal.timeout(LIMIT_MS) });

/** Asks the gateway now. */
export async function refresh() {
  if (isRunning) return;
  isRunning = true;
  try {
    const [{ servers }, isNew] = await getIfChanged('/servers', undefined, limited());
    const isOpen = servers.some((server) => server.transport && server.breaker !== 'closed');
    // A breaker that is closed has nothing more to say.
    const breakers = isOpen ? (await get('/circuit-breakers', limited())).circuit_breakers : [];
    pause = isNew || isOpen ? EVERY_MS : Math.min(SELDOM_MS, pause * 1.5);
    note(servers);
    state.servers = servers;
    state.breakers = new Map(breakers.map((breaker) => [breaker.server, breaker]));
    state.failure = null;
    state.at = Date.now();
  } catch (error) {
    pause = EVERY_MS;
    state.failure = error;
  } finally {
    isRunning = false;
  }
  for (const watcher of [...watchers]) watcher();
}

function tick() {
  clearTimeout(timer);
  if (document.visibilityState !== 'visible') return;
  refresh().finally(() => {
    timer = setTimeout(tick, pause);
    if (state.servers && !hasBegun) { hasBegun = true; begin(); }
  });
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
