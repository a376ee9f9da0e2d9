// View: all servers.

import { announce, badge, choices, counted, duration, fill, fillIfChanged, h, heading, number } from './dom.js';
import { sparkline } from './chart.js';
import { blockedTools, byProblem, hasProblem, summary } from './health.js';
import { errorsOf, historyOf, state, watch } from './state.js';
import { may } from './api.js';
import { reload } from './system.js';
import { addServer } from './entries.js';

const STATES = {
  ready: ['ready', 'good'], idle: ['idle', 'good'], connecting: ['connecting', 'busy'], starting: ['starting', 'busy'],
  failed: ['failed', 'bad'],
  auth_failed: ['credentials refused', 'bad'], login_required: ['login required', 'warn'],
  disconnected: ['disconnected', 'off'], disabled: ['disabled', 'off'], not_configured: ['not configured', 'bad'],
};
const BREAKERS = { closed: ['closed', 'good'], open: ['open', 'bad'], half_open: ['half open', 'warn'] };

export function stateBadge(server) {
  return badge(...(STATES[server.state] ?? [server.state, 'warn']));
}

export function inTime(seconds) {
  return seconds > 100 ? `${Math.round(seconds / 60)} min` : `${Math.ceil(seconds)} s`;
}

export function breakerBadge(server) {
  const [word, kind] = BREAKERS[server.breaker] ?? [server.breaker, 'warn'];
  const seconds = state.breakers.get(server.name)?.seconds_until_probe;
  const pause = server.breaker === 'open' && typeof seconds === 'number' ? `, probe in ${inTime(seconds)}` : '';
  if (server.breaker === 'closed') return h('span', { class: 'quiet' }, word);
  return badge(`${word}${pause}`, kind);
}

export function reason(server) {
  return server.healthy || server.state === 'disabled' ? null : server.last_error;
}

/** The mistakes in the entry of a server in the configuration file, each with its place. */
export function mistakes(server) {
  return (server.problems ?? []).map(({ line, column, setting, message, hint }) =>
    `line ${line}, column ${column}: ${setting}: ${message}${hint ? ` (hint: ${hint})` : ''}`);
}

/** Names of hosts and programs, without what repeats the name. */
export function target(server) {
  return server.url ?? server.command ?? server.builtin ?? '';
}

function lastOf(list) {
  return list.findLast?.((value) => value !== null) ?? null;
}

/** A rate with its unit. */
export function perSecond(rate) {
  return `${rate === 0 || rate >= 10 ? Math.round(rate) : rate.toFixed(1)}/s`;
}

function sparklines(name) {
  const { at, rate, p50, p99 } = historyOf(name);
  const [half, most] = [lastOf(p50), lastOf(p99)];
  const rateText = perSecond(rate.at(-1) ?? 0);
  const timeText = half === null ? '–' : `${duration(half)} / ${duration(most)}`;
  const value = (text, isQuiet) => h('span', { class: `value ${isQuiet ? 'quiet' : ''}` }, text);
  return {
    rate: [sparkline([{ at, values: rate, kind: 'rate' }], `calls per second, now ${rateText}`), value(rateText, rateText === '0/s')],
    times: [sparkline([{ at, values: p50, kind: 'p50' }, { at, values: p99, kind: 'p99' }], `duration of calls, p50 and p99: ${half === null ? 'no recent calls' : timeText}`), value(timeText, half === null)],
  };
}

/** The errors now and since the start, if there were any: `0.4/s` and `12 (3.4 %)`. */
function errorCell(server) {
  const errors = errorsOf(server.counters);
  const now = historyOf(server.name).errors.at(-1) ?? 0;
  if (errors === 0) return h('span', { class: 'quiet' }, h('span', { class: 'narrow-only' }, 'errors '), 'none');
  return [h('span', { class: now > 0 ? 'bad-text' : 'quiet' }, h('span', { class: 'narrow-only' }, 'errors '), perSecond(now)),
    h('span', { class: 'quiet small' }, `${number(errors)} (${((100 * errors) / Math.max(1, server.counters.calls)).toFixed(1)} %)`)];
}

/** The tools of a server whose definition changed, as a link. */
function changedBadge(server) {
  const [blocked, changed] = [blockedTools(server), server.changed_tool_count];
  const link = (text, kind) => h('a', { class: `badge ${kind}`, href: '#/changes', 'data-focus': `${server.name} changed` }, h('span', { class: 'dot', 'aria-hidden': 'true' }), text);
  if (blocked > 0) return link(`${counted(blocked, 'tool')} blocked`, 'bad');
  return changed > 0 && link(`${number(changed)} changed`, 'warn');
}

function row(server) {
  const found = mistakes(server);
  const why = found.length > 0 ? found.join('; ') : reason(server);
  const { rate, times } = sparklines(server.name);
  const { calls } = server.counters;
  const [isConfigured, isProblem] = [Boolean(server.transport), hasProblem(server)];
  return h('li', { class: `server ${isProblem ? 'troubled' : ''}` },
    h('div', { class: 'name' }, h('a', { href: `#/servers/${encodeURIComponent(server.name)}`, 'data-focus': server.name }, server.name),
      isConfigured && h('span', { class: 'quiet small' }, `${server.transport} · ${target(server)}`)),
    h('div', { class: 'states' }, stateBadge(server),
      server.breaker !== 'closed' && h('span', { class: 'pair' }, h('span', { class: 'quiet small' }, 'breaker'), breakerBadge(server)),
      isConfigured && found.length > 0 && badge('old settings', 'warn'), changedBadge(server)),
    isConfigured && [h('div', { class: 'cell' }, rate),
      h('div', { class: 'cell numbers errors' }, errorCell(server)),
      h('div', { class: 'cell' }, times),
      h('div', { class: 'cell numbers' }, h('span', {}, counted(server.tool_count, 'tool')),
        h('span', { class: 'quiet small' }, `${counted(calls, 'call')}`))],
    why && h('p', { class: `why ${isProblem ? '' : 'quiet'}` }, why));
}

/** The choice of state and the text of the filter, which stay while other views are open. */
const filters = { state: 'all', text: '' };

/** The choices of states: all, those with a problem, and each state that a server has. */
function stateChoices(servers) {
  const count = new Map();
  for (const { state: one } of servers) count.set(one, (count.get(one) ?? 0) + 1);
  const known = Object.keys(STATES);
  const states = [...count].sort(([a], [b]) => known.indexOf(a) - known.indexOf(b)).map(([one, many]) => [one, STATES[one]?.[0] ?? one, many]);
  return [['all', 'all', servers.length], ['problem', 'with a problem', servers.filter(hasProblem).length], ...states];
}

function isChosen(server) {
  const { state: chosen, text } = filters;
  const fits = chosen === 'all' || (chosen === 'problem' ? hasProblem(server) : server.state === chosen);
  return fits && server.name.toLowerCase().includes(text.trim().toLowerCase());
}

/** Shows the view, and returns the function that ends it. */
export function show(main) {
  const list = h('ul', { class: 'servers', 'aria-label': 'Servers' });
  const about = h('p', { class: 'quiet' });
  const states = h('div', {});
  const filter = h('input', { type: 'search', placeholder: 'Filter servers', 'aria-label': 'Filter servers', class: 'filter', 'data-filter': true, value: filters.text });
  let told = '';
  const draw = () => {
    if (!state.servers) return;
    filters.text = filter.value;
    const options = stateChoices(state.servers);
    // A state that no server has any more is no choice.
    if (!options.some(([value]) => value === filters.state)) filters.state = 'all';
    const shown = byProblem(state.servers).filter(isChosen);
    const { text } = summary(state.servers);
    fill(about, text);
    if (told && told !== text) announce(text);
    told = text;
    fillIfChanged(states, JSON.stringify([options, filters.state]), () => choices('State', options, filters.state, (value) => { filters.state = value; draw(); }));
    // The time of a point alone is nothing new to see.
    const seen = ({ rate, errors, p50, p99 }) => [rate, errors, p50, p99];
    const key = JSON.stringify([shown, shown.map((server) => seen(historyOf(server.name))), [...state.breakers.values()]]);
    const none = () => (state.servers.length === 0 ? 'The configuration has no servers.' : filters.state === 'problem' && filters.text === '' ? 'No server has a problem.' : 'No server is like that.');
    fillIfChanged(list, key, () => (shown.length > 0 ? shown.map(row) : h('li', { class: 'empty' }, none())));
  };
  filter.addEventListener('input', draw);
  const head = heading('Servers', null, filter, addServer(), may('superuser') && reload());
  head.firstChild.append(about);
  const quantile = (kind) => h('span', { class: 'key' }, h('span', { class: `swatch ${kind}` }), kind);
  const columns = h('div', { class: 'columns', 'aria-hidden': 'true' }, ['Server', 'State', 'Calls, last 15 min', 'Errors', [quantile('p50'), ' / ', quantile('p99'), ', last 15 min'], 'Offer'].map((title) => h('span', {}, title)));
  fill(main, head, states, columns, list);
  draw();
  return watch(draw);
}
