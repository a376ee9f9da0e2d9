// View: the tools of all servers, by server and by what their annotations say.

import { get } from './api.js';
import { told } from './actions.js';
import { addInSteps, announce, choices, fill, fillIfChanged, h, heading, number } from './dom.js';
import { KINDS, kindsOf, toolPart } from './tool.js';

/** The tools with their parts of the page, and the words that a search looks at. */
function entriesOf(tools) {
  const words = ({ name, server, definition }) => `${name} ${server} ${definition?.title ?? ''} ${definition?.description ?? ''}`.toLowerCase();
  return tools.map((tool) => ({ tool, words: words(tool), kinds: kindsOf(tool), part: null }));
}

/** The part of a server, with places for its tools. */
function groupOf([server, entries]) {
  const count = h('span', { class: 'quiet' });
  const box = h('section', { class: 'group', 'aria-label': `Tools of ${server}` },
    h('h2', {}, h('a', { href: `#/servers/${encodeURIComponent(server)}` }, server), ' ', count));
  const rows = h('div', { class: 'rows' });
  box.append(rows);
  return { server, entries, count, box, rows };
}

/** Shows the view. */
export function show(main) {
  const filter = h('input', { type: 'search', placeholder: 'Find a tool', 'aria-label': 'Find a tool', class: 'filter', 'data-filter': true });
  const servers = h('select', { 'aria-label': 'Server' }, h('option', { value: '' }, 'All servers'));
  const kinds = h('div', {});
  const list = h('div', {}, h('p', { class: 'quiet' }, 'Loading…'));
  const none = h('p', { class: 'empty', hidden: true });
  const about = h('p', { class: 'quiet' });
  const head = heading('Tools', null, servers, filter);
  head.firstChild.append(about);
  fill(main, head, kinds, none, list);
  let [groups, kind, end] = [[], 'all', () => {}];

  // The parts stay, so a form that is being filled in stays too. A filter hides them.
  const draw = () => {
    const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    const isFound = (entry) => (servers.value === '' || entry.tool.server === servers.value) && words.every((word) => entry.words.includes(word));
    const entries = groups.flatMap((group) => group.entries);
    const found = entries.filter(isFound);
    const shown = new Set(kind === 'all' ? found : found.filter((entry) => entry.kinds.includes(kind)));
    for (const { entries: own, count, box } of groups) {
      for (const entry of own) if (entry.part) entry.part.hidden = !shown.has(entry);
      const many = own.filter((entry) => shown.has(entry)).length;
      box.hidden = many === 0;
      fill(count, many === own.length ? number(many) : `${number(many)} of ${number(own.length)}`);
    }
    const options = [['all', 'all', found.length], ...KINDS.map(([one, word]) => [one, word, found.filter((entry) => entry.kinds.includes(one)).length])];
    fillIfChanged(kinds, JSON.stringify([options, kind]), () => choices('Annotation', options, kind, (value) => { kind = value; draw(); }));
    fill(about, `${number(shown.size)} of ${number(entries.length)}`);
    fill(none, entries.length === 0 ? 'No server offers a tool now.' : 'No tool is like that.');
    none.hidden = shown.size > 0;
  };
  let timer;
  filter.addEventListener('input', () => {
    clearTimeout(timer);
    timer = setTimeout(() => { draw(); announce(about.textContent); }, 120);
  });
  servers.addEventListener('change', draw);
  const begin = (tools) => {
    groups = [...Map.groupBy(entriesOf(tools), ({ tool }) => tool.server)].map(groupOf);
    servers.append(...groups.map(({ server, entries }) => h('option', { value: server }, `${server} (${entries.length})`)));
    const places = new Map(groups.map((group) => [group.server, group.rows]));
    fill(list, groups.map((group) => group.box));
    const add = (entry) => {
      entry.part = toolPart(entry.tool);
      places.get(entry.tool.server).append(entry.part);
      return null;
    };
    end = addInSteps(list, groups.flatMap((group) => group.entries), add, draw);
    draw();
  };
  let isOver = false;
  get('/tools').then(({ tools }) => { if (!isOver) begin(tools); }, (error) => fill(list, h('p', { class: 'problem' }, told(error))));
  return () => { isOver = true; clearTimeout(timer); end(); };
}
