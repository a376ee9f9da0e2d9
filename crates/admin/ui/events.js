// Live events of the gateway. Without the route, the page says so.

import { eventsOf, send } from './api.js';

const KEPT = 500;

/** The last calls by their id, newest last, and whether events are available: null while it is not known. */
export const live = { calls: new Map(), others: [], isAvailable: null, isConnected: false, missed: 0 };
const watchers = new Set();
let running = null;
let lastId;

export function watchEvents(watcher) {
  watchers.add(watcher);
  return () => watchers.delete(watcher);
}

function tell() {
  for (const watcher of [...watchers]) watcher();
}

function trim(map) {
  while (map.size > KEPT) map.delete(map.keys().next().value);
}

function note({ event, data }) {
  let value;
  try { value = JSON.parse(data); } catch { return; }
  if (event === 'call_started' || event === 'call_ended') {
    live.calls.set(value.call, { ...live.calls.get(value.call), ...value, isRunning: event === 'call_started' });
    trim(live.calls);
  } else if (event === 'gap') {
    live.missed += Number(value.missed ?? value.count ?? 0);
  } else {
    live.others.push({ event, ...value });
    if (live.others.length > KEPT) live.others.shift();
  }
}

async function read(signal) {
  const extra = lastId === undefined ? {} : { 'Last-Event-ID': lastId };
  const response = await send('GET', '/events', { accept: 'text/event-stream', signal, extra });
  if (response.status === 404 || response.status === 405) { live.isAvailable = false; return false; }
  if (!response.ok) { live.isAvailable ??= false; return response.status >= 500; }
  live.isAvailable = true;
  live.isConnected = true;
  tell();
  for await (const event of eventsOf(response)) {
    if (event.id !== undefined) lastId = event.id;
    note(event);
    tell();
  }
  return true;
}

/** Begins to listen, if it has not begun yet. Stops after `stopEvents`. */
export async function startEvents() {
  if (running) return;
  running = new AbortController();
  const { signal } = running;
  let goesOn = true;
  while (goesOn && !signal.aborted) {
    try { goesOn = await read(signal); } catch { goesOn = !signal.aborted; }
    live.isConnected = false;
    tell();
    if (goesOn && !signal.aborted) await new Promise((resolve) => { setTimeout(resolve, 2000); });
  }
  if (running?.signal === signal) running = null;
}

export function stopEvents() {
  running?.abort();
  running = null;
}
