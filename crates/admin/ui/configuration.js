// View: the configuration as loaded, without its secrets.

import { get, may } from './api.js';
import { told } from './actions.js';
import { fill, h, heading } from './dom.js';
import { reload } from './system.js';

const PLAIN = /^[\w./@:$~+-][\w ./@:$~+-]*$/;

function scalar(value) {
  if (value === null) return h('span', { class: 'y-null' }, 'null');
  if (typeof value !== 'string') return h('span', { class: 'y-number' }, String(value));
  if (value === '***') return h('span', { class: 'y-blank' }, '***', h('span', { class: 'hidden' }, ' (not shown)'));
  if (value.includes('${')) return h('span', { class: 'y-reference' }, value);
  return h('span', {}, PLAIN.test(value) && !/^(true|false|null|~|[\d.]+)$|: | #/.test(value) ? value : JSON.stringify(value));
}

function isLeaf(value) {
  return value === null || typeof value !== 'object' || Object.keys(value).length === 0;
}

function leaf(value) {
  if (Array.isArray(value)) return h('span', {}, '[]');
  return value !== null && typeof value === 'object' ? h('span', {}, '{}') : scalar(value);
}

function short(value) {
  return Array.isArray(value) && value.length > 0 && value.every((one) => isLeaf(one)) && JSON.stringify(value).length < 80;
}

function inline(list) {
  return ['[', list.map((one, at) => [at > 0 && ', ', leaf(one)]), ']'];
}

function write(value, indent) {
  const pad = '  '.repeat(indent);
  const pairs = Array.isArray(value) ? value.map((one) => [null, one]) : Object.entries(value);
  return pairs.flatMap(([key, one]) => {
    const name = key === null ? '-' : h('span', { class: 'y-key' }, /^[\w.-]+$/.test(key) ? key : JSON.stringify(key), ':');
    if (isLeaf(one)) return [pad, name, ' ', leaf(one), '\n'];
    if (short(one)) return [pad, name, ' ', inline(one), '\n'];
    const below = write(one, indent + 1);
    // The first member of a list item stands beside its dash.
    if (key === null) return [pad, '- ', ...below.slice(1)];
    return [pad, name, '\n', ...below];
  });
}

/** Shows the view. */
export function show(main) {
  const body = h('div', {}, h('p', { class: 'quiet' }, 'Loading…'));
  const load = async () => {
    if (!may('superuser')) { fill(body, h('p', { class: 'empty' }, 'Only superusers may read the configuration.')); return; }
    try {
      const { configuration, loaded_at: at } = await get('/configuration');
      fill(body, h('p', { class: 'quiet' }, `Loaded ${new Date(at).toLocaleString('en-GB')}. References such as `, h('code', {}, '${TOKEN}'), ' are shown as written, and values that may be secret are blanked.'),
        h('pre', { class: 'code yaml', tabindex: '0', role: 'region', 'aria-label': 'Configuration' }, write(configuration, 0)));
    } catch (error) {
      fill(body, h('p', { class: error.status === 404 ? 'empty' : 'problem' }, error.status === 404 ? 'This gateway does not show its configuration.' : told(error)));
    }
  };
  const button = may('superuser') ? [reload()] : [];
  fill(main, heading('Configuration', null, ...button), body);
  load();
  return () => {};
}
