// View: calls as they happen.

import { dialog } from './actions.js';
import { badge, button, clock, duration, fill, fillIfChanged, h, heading, json, table } from './dom.js';
import { live, startEvents, stopEvents, watchEvents } from './events.js';

const OUTCOMES = { ok: ['ok', 'good'], tool_error: ['tool error', 'warn'], rpc_error: ['server error', 'bad'], failed: ['failed', 'bad'], cancelled: ['cancelled', 'off'] };
const SHOWN = 200;

/** The outcomes of calls, as options of a choice. */
export const outcomes = Object.entries(OUTCOMES).map(([value, [word]]) => [value, word]);

/** The table of calls. */
export function callTable(rows) {
  return table('Calls', [{ title: 'Time', kind: 'time' }, 'Outcome', 'Tool', { title: 'Server', kind: 'wide' }, { title: 'Principal', kind: 'wide' }, { title: 'Duration', kind: 'right' }], rows);
}

/** How a call ended. */
export function outcome(call) {
  return call.isRunning ? badge('running', 'busy') : badge(...(OUTCOMES[call.outcome] ?? [call.outcome ?? '?', 'warn']));
}

function row(call) {
  const open = button(call.tool ?? '', () => detail(call), { class: 'link', 'data-focus': String(call.call) });
  const why = call.error && h('p', { class: 'quiet small clip', title: call.error }, call.error);
  return h('tr', {}, h('td', { class: 'time' }, clock(call.at)), h('td', {}, outcome(call)), h('td', {}, open, why), h('td', { class: 'wide' }, call.server),
    h('td', { class: 'wide' }, call.principal), h('td', { class: 'right' }, call.isRunning ? '…' : duration(call.duration_ms)));
}

/** Opens what is known of a call. */
export function detail(call) {
  const attempts = call.attempts ?? [];
  const facts = [['Outcome', outcome(call)], ['Code', call.code], ['Error', call.error], ['Server', call.server], ['Principal', call.principal], ['Client', call.client],
    ['Duration', call.isRunning ? null : duration(call.duration_ms)], ['Request', call.request_id], ['At', call.at]];
  const shown = facts.filter(([, value]) => value !== null && value !== undefined && value !== '');
  dialog(`Call of ${call.tool}`, () => [
    h('dl', { class: 'facts' }, shown.map(([name, value]) => h('div', { class: 'fact' }, h('dt', {}, name), h('dd', {}, typeof value === 'object' && !(value instanceof Node) ? JSON.stringify(value) : value)))),
    attempts.length > 0 && [h('h3', {}, 'Attempts'),
      table('Attempts', ['#', 'Outcome', { title: 'Duration', kind: 'right' }, 'Error'], attempts.map((one, at) =>
        h('tr', {}, h('td', {}, one.attempt ?? at + 1), h('td', {}, one.outcome), h('td', { class: 'right' }, duration(one.duration_ms)), h('td', {}, one.error ?? ''))))],
    call.arguments !== undefined && [h('h3', {}, 'Arguments'), json(call.arguments, 'Arguments')],
  ]);
}

/** Shows the view. */
export function show(main) {
  const text = h('input', { type: 'search', placeholder: 'Server, tool or principal', 'aria-label': 'Filter by server, tool or principal', class: 'filter', 'data-filter': true });
  const kind = h('select', { 'aria-label': 'Filter by outcome' }, [['', 'All outcomes'], ['running', 'running'], ...outcomes]
    .map(([value, word]) => h('option', { value }, word)));
  let isPaused = false;
  const pause = button('Pause', () => { isPaused = !isPaused; pause.textContent = isPaused ? 'Resume' : 'Pause'; draw(); }, { 'aria-pressed': 'false' });
  const list = h('div', {});
  const other = h('div', {});
  const fits = (call) => {
    const word = text.value.trim().toLowerCase();
    const all = `${call.server} ${call.tool} ${call.principal}`.toLowerCase();
    const isKind = kind.value === '' || (kind.value === 'running' ? call.isRunning : call.outcome === kind.value && !call.isRunning);
    return isKind && all.includes(word);
  };
  const draw = () => {
    pause.setAttribute('aria-pressed', String(isPaused));
    if (isPaused) return;
    if (live.isAvailable === false) { fill(list, h('p', { class: 'empty' }, 'Live calls are not available in this gateway.')); return; }
    const calls = [...live.calls.values()].filter(fits).reverse().slice(0, SHOWN);
    const missed = live.missed > 0 ? ` ${live.missed} events were missed.` : '';
    const waiting = `${live.isConnected ? 'Listening. Calls are shown as they happen.' : 'Connecting…'}${missed}`;
    fillIfChanged(list, JSON.stringify([calls, waiting]), () => [h('p', { class: 'quiet' }, waiting),
      calls.length > 0 && callTable(calls.map(row))]);
    const others = live.others.slice(-20).reverse();
    fillIfChanged(other, JSON.stringify(others), () => others.length > 0 && [h('h2', {}, 'Other events'),
      table('Other events', ['Time', 'Event', 'Server', 'What'], others.map((one) => h('tr', {}, h('td', { class: 'time' }, clock(one.at)),
        h('td', {}, String(one.event).replaceAll('_', ' ')), h('td', {}, one.server ?? ''), h('td', {}, what(one)))))]);
  };
  for (const input of [text, kind]) input.addEventListener('input', draw);
  fill(main, heading('Live calls', null, text, kind, pause), list, other);
  draw();
  startEvents();
  const stop = watchEvents(draw);
  return () => { stop(); stopEvents(); };
}

function what(event) {
  const { state, from, to, reason, action, principal, outcome: end } = event;
  const tools = ['added', 'removed', 'changed'].filter((word) => event[word]?.count > 0).map((word) => `${event[word].count} ${word}: ${event[word].first.join(', ')}`);
  return [state, from && to && `${from} → ${to}`, action, principal, end, reason, ...tools].filter(Boolean).join(' · ');
}
