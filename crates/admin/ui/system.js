// View: sessions, limits, cache and memory.

import { metricsText, post } from './api.js';
import { action } from './actions.js';
import { meter } from './chart.js';
import { bytes, fill, fillIfChanged, h, heading, number, table } from './dom.js';
import { every, one, parse } from './metrics.js';
import { watch } from './state.js';

/** The button that reads the configuration file again. */
export function reload() {
  return action('Reload configuration', {
    title: 'Read the configuration file again?', verb: 'Reload',
    text: 'New servers start, removed ones stop, and changed ones are replaced. A server whose entry has a mistake keeps its old settings. A mistake elsewhere in the file changes nothing.',
  }, async () => {
    const { added, changed, removed, retained = [], not_configured: wrong = [], at_restart: later } = await post('/reload');
    document.dispatchEvent(new CustomEvent('reloaded'));
    const words = [[added, 'added'], [changed, 'changed'], [removed, 'removed'], [retained, 'kept with old settings'], [wrong, 'not configured']].filter(([list]) => list.length > 0).map(([list, word]) => `${list.length} ${word}`);
    return `reloaded: ${words.join(', ') || 'no server changed'}${later.length > 0 ? `; at the next restart: ${later.join(', ')}` : ''}`;
  });
}

function fact(name, value) {
  return h('div', { class: 'fact' }, h('dt', {}, name), h('dd', {}, value));
}

function clients(metrics) {
  return h('section', {}, h('h2', {}, 'Clients'), h('dl', { class: 'facts' },
    fact('Clients', number(one(metrics, 'clients'))), fact('Sessions of older clients', number(one(metrics, 'sessions'))),
    fact('Open sockets', number(one(metrics, 'client_sockets'))), fact('Kept for resuming', bytes(one(metrics, 'replay_bytes') ?? 0))));
}

function memory(metrics) {
  const [used, limit] = [one(metrics, 'memory_used_bytes') ?? 0, one(metrics, 'memory_budget_bytes') ?? 0];
  const refusals = every(metrics, 'memory_refusals_total').map(({ labels, value }) => fact(`Refused ${labels.kind}`, number(value)));
  return h('section', {}, h('h2', {}, 'Memory budget'), h('p', { class: 'quiet' }, 'Bytes of all messages in flight.'),
    h('dl', { class: 'facts' }, meter('In use', used, limit, `${bytes(used)} of ${bytes(limit)}`), refusals));
}

function cache(metrics) {
  const areas = every(metrics, 'cache_hits_total').map(({ labels, value }) => {
    const misses = one(metrics, 'cache_misses_total', labels) ?? 0;
    const rate = value + misses > 0 ? `${Math.round((100 * value) / (value + misses))} %` : '–';
    return h('tr', {}, h('td', {}, labels.area), h('td', { class: 'right' }, number(value)), h('td', { class: 'right' }, number(misses)), h('td', { class: 'right' }, rate));
  });
  const isThere = one(metrics, 'cache_available');
  const numbers = ['Hits', 'Misses', 'Hit rate'].map((title) => ({ title, kind: 'right' }));
  return h('section', {}, h('h2', {}, 'Cache'), isThere === 0 && h('p', { class: 'problem' }, 'Redis is not available. Calls go on without it.'),
    areas.length > 0 ? table('Cache', ['Area', ...numbers], areas) : h('p', { class: 'quiet' }, 'Nothing is cached.'));
}

function limits(metrics) {
  const hits = every(metrics, 'limit_hits_total');
  const reached = hits.filter(({ value }) => value > 0).sort((a, b) => b.value - a.value);
  const never = hits.filter(({ value }) => value === 0).map(({ labels }) => labels.limit).sort();
  const rows = reached.map(({ labels, value }) => h('tr', { class: 'hit' }, h('td', {}, h('code', {}, labels.limit)), h('td', { class: 'right' }, number(value))));
  return h('section', {}, h('h2', {}, 'Limits'), h('p', { class: 'quiet' }, 'Limits that were reached since the start, and how often.'),
    rows.length > 0 ? table('Limits', ['Limit', { title: 'Reached', kind: 'right' }], rows) : h('p', {}, 'None was reached.'),
    h('details', { 'data-details': 'never' }, h('summary', { 'data-focus': 'never' }, `${number(never.length)} limits that were not reached`), h('ul', { class: 'never' }, never.map((name) => h('li', {}, h('code', {}, name))))));
}

/** The metrics of this view. */
const names = ['clients', 'sessions', 'client_sockets', 'replay_bytes', 'memory_used_bytes', 'memory_budget_bytes', 'memory_refusals_total', 'cache_available', 'cache_hits_total', 'cache_misses_total', 'limit_hits_total'];

/** Shows the view. */
export function show(main) {
  const body = h('div', { class: 'sections' }, h('p', { class: 'quiet' }, 'Loading…'));
  const version = h('p', { class: 'quiet' });
  const head = heading('System', null);
  head.firstChild.append(version);
  fill(main, head, body);
  // Only this view needs the metrics, and a gateway that is away is told of by all of them.
  const draw = async () => {
    const text = await metricsText([...names, 'build_info_info', 'build_info']).catch(() => null);
    if (text === null || !body.isConnected) return;
    const metrics = parse(text);
    fill(version, `Switchyard ${every(metrics, 'build_info_info').concat(every(metrics, 'build_info'))[0]?.labels.version ?? ''}`);
    const key = JSON.stringify(names.map((name) => every(metrics, name)));
    fillIfChanged(body, key, () => [clients(metrics), memory(metrics), cache(metrics), limits(metrics)]);
  };
  draw();
  return watch(draw);
}
