// View: tools whose definition changed since it was trusted.

import { may, ofServer, post } from './api.js';
import { action } from './actions.js';
import { difference, marked } from './diff.js';
import { badge, fill, fillIfChanged, h, heading, number } from './dom.js';
import { state, watch } from './state.js';

function approve(server, change) {
  const seen = { tool: change.tool, sha256: change.sha256, ...(change.previous_owner && { previous_owner: change.previous_owner }) };
  const query = `?${new URLSearchParams(seen)}`;
  return action('Approve', {
    title: `Approve ${change.tool} of ${server}?`, verb: 'Approve', done: `${change.tool} is approved`,
    text: 'The definition that you see here is trusted from now on. If the server changed it again meanwhile, nothing is approved.',
  }, () => post(ofServer(server, `/tools/approve${query}`)), { class: 'primary', 'data-focus': `approve ${server} ${change.tool}` });
}

function part(server, change) {
  const before = change.trusted_definition;
  const words = change.changed.length > 0 ? change.changed.join(', ') : 'not remembered before';
  const label = `What changed in ${change.tool}`;
  const owner = change.previous_owner && h('p', {}, `The name belonged to the server ${change.previous_owner} before.`);
  return h('article', { class: 'change', 'aria-label': `${change.tool} of ${server}` },
    h('div', { class: 'heading small-heading' }, h('div', {}, h('h2', {}, change.tool),
      h('p', { class: 'quiet' }, h('a', { href: `#/servers/${encodeURIComponent(server)}` }, server), ` · changed: ${words} `,
        change.held_back ? badge('blocked until approved', 'bad') : badge('still offered', 'warn'),
        change.held_in && badge(`held in ${change.held_in.join(', ')}`, 'bad'))),
    may('superuser') && h('div', { class: 'actions' }, approve(server, change))),
    owner,
    before ? difference(before, change.definition, label)
      : [h('p', { class: 'quiet small' }, change.changed[0] === 'new' ? 'The server did not have it before. Nobody has approved it yet.'
        : 'The definition of before is not remembered, only its hash. Changed members are marked.'), marked(change.definition, change.changed, label)],
    h('p', { class: 'quiet small hash' }, `SHA-256 ${change.sha256}`));
}

/** Shows the view. */
export function show(main) {
  const list = h('div', {}, h('p', { class: 'quiet' }, 'Loading…'));
  fill(main, heading('Changed tools', 'A definition that is not the trusted one, or that is new to a view. Read it before a model does.'), list);
  const draw = () => {
    if (!state.servers) return;
    const changes = state.servers.flatMap((server) => (server.changed_tools ?? []).map((change) => [server.name, change]));
    const all = state.servers.reduce((sum, server) => sum + server.changed_tool_count, 0);
    fillIfChanged(list, JSON.stringify(changes), () => [changes.length > 0 ? changes.map(([server, change]) => part(server, change))
      : h('p', { class: 'empty' }, 'Every tool has its trusted definition.'),
    all > changes.length && h('p', { class: 'quiet' }, `${number(all - changes.length)} more are not shown.`)]);
  };
  draw();
  return watch(draw);
}

