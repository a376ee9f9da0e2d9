// View: all servers.

import { announce, badge, counted, duration, fill, fillIfChanged, h, heading, number } from './dom.js';
import { sparkline } from './chart.js';
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
  if (server.healthy) return null;
  return server.state === 'disabled' ? 'disabled' : server.last_error;
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

export function lastOf(list) {
  return list.findLast?.((value) => value !== null) ?? null;
}

function perSecond(rate) {
  return `${rate < 10 ? rate.toFixed(1) : Math.round(rate)}/s`;
}

export function sparklines(name) {
  const { rate, errors, p50, p99 } = historyOf(name);
  const [half, most] = [lastOf(p50), lastOf(p99)];
  const [rateText, errorText] = [rate, errors].map((values) => perSecond(values.at(-1) ?? 0));
  const timeText = half === null ? 'no recent calls' : `${duration(half)} / ${duration(most)}`;
  return {
    rate: [sparkline([{ values: rate, kind: 'rate' }], `calls per second, now ${rateText}`), h('span', { class: 'value' }, rateText)],
    errors: [sparkline([{ values: errors, kind: 'errors' }], `errors per second, now ${errorText}`), h('span', { class: 'value' }, errorText)],
    times: [sparkline([{ values: p99, kind: 'p99' }, { values: p50, kind: 'p50' }], `duration of calls, p50 and p99: ${timeText}`), h('span', { class: 'value' }, timeText)],
  };
}

/** The errors now and since the start: `0.4/s` and `12 (3.4 %)`. */
function errorCell(server) {
  const errors = errorsOf(server.counters);
  const now = historyOf(server.name).errors.at(-1) ?? 0;
  const share = errors > 0 ? ` (${((100 * errors) / Math.max(1, server.counters.calls)).toFixed(1)} %)` : '';
  return [h('span', { class: now > 0 ? 'bad-text' : '' }, h('span', { class: 'narrow-only' }, 'errors '), perSecond(now)),
    h('span', { class: 'quiet small' }, `${number(errors)}${share}`)];
}

function row(server) {
  const found = mistakes(server);
  const why = found.length > 0 ? found.join('; ') : reason(server);
  const { rate, times } = sparklines(server.name);
  const { calls } = server.counters;
  return h('li', { class: `server ${server.healthy ? '' : 'troubled'}` },
    h('div', { class: 'name' }, h('a', { href: `#/servers/${encodeURIComponent(server.name)}`, 'data-focus': server.name }, server.name),
      server.transport && h('span', { class: 'quiet small' }, `${server.transport} · ${target(server)}`)),
    h('div', { class: 'states' }, stateBadge(server),
      server.transport && h('span', { class: 'pair' }, h('span', { class: 'quiet small' }, 'breaker'), breakerBadge(server)),
      server.transport && found.length > 0 && badge('old settings', 'warn'),
      server.changed_tool_count > 0 && h('a', { class: 'badge warn', href: '#/changes', 'data-focus': `${server.name} changed` }, `${number(server.changed_tool_count)} changed`)),
    h('div', { class: 'cell' }, rate),
    h('div', { class: 'cell numbers' }, errorCell(server)),
    h('div', { class: 'cell' }, times),
    h('div', { class: 'cell numbers' }, h('span', {}, counted(server.tool_count, 'tool')),
      h('span', { class: 'quiet small' }, `${counted(calls, 'call')}`)),
    why && h('p', { class: 'why' }, why));
}

function summary(servers) {
  const on = servers.filter((server) => server.enabled);
  const [fine, off] = [on.filter((server) => server.healthy).length, servers.length - on.length];
  const bad = on.length - fine;
  return [`${fine} of ${on.length} healthy`, bad > 0 && `${bad} with a problem`, off > 0 && `${off} disabled`].filter(Boolean).join(' · ');
}

/** Shows the view, and returns the function that ends it. */
export function show(main) {
  const list = h('ul', { class: 'servers', 'aria-label': 'Servers' });
  const about = h('p', { class: 'quiet' });
  const filter = h('input', { type: 'search', placeholder: 'Filter servers', 'aria-label': 'Filter servers', class: 'filter', 'data-filter': true });
  let told = '';
  const draw = () => {
    if (!state.servers) return;
    const wanted = filter.value.trim().toLowerCase();
    const shown = state.servers.filter((server) => server.name.toLowerCase().includes(wanted));
    const text = summary(state.servers);
    fill(about, text);
    if (told && told !== text) announce(text);
    told = text;
    const key = JSON.stringify([shown, shown.map((server) => historyOf(server.name)), [...state.breakers.values()]]);
    fillIfChanged(list, key, () => (shown.length > 0 ? shown.map(row) : h('li', { class: 'empty' }, wanted ? 'No server has this in its name.' : 'The configuration has no servers.')));
  };
  filter.addEventListener('input', draw);
  const head = heading('Servers', null, filter, addServer(), may('superuser') && reload());
  head.firstChild.append(about);
  const columns = h('div', { class: 'columns', 'aria-hidden': 'true' }, ['Server', 'State', 'Calls per second', 'Errors', 'p50 / p99', 'Offer'].map((title) => h('span', {}, title)));
  fill(main, head, columns, list);
  draw();
  return watch(draw);
}
