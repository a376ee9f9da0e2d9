// View: the tools of all servers, by server and by what their annotations say; for superusers also as another caller has them.

import { get, may } from './api.js';
import { told } from './actions.js';
import { callerOptions, loadCallers, nameOf, viewOf } from './callers.js';
import { addInSteps, announce, choices, fill, fillIfChanged, h, heading, number } from './dom.js';
import { KINDS, kindsOf, toolPart } from './tool.js';
import { whyButton } from './why.js';

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

/** A list of tools by server, with a filter and choices. `show` gets the tools; `fail` gets an error. */
export function toolBrowser() {
  const filter = h('input', { type: 'search', placeholder: 'Find a tool', 'aria-label': 'Find a tool', class: 'filter', 'data-filter': true });
  const servers = h('select', { 'aria-label': 'Server' });
  const kinds = h('div', {});
  const list = h('div', {}, h('p', { class: 'quiet' }, 'Loading…'));
  const none = h('p', { class: 'empty', hidden: true });
  const about = h('p', { class: 'quiet' });
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
  const show = (tools) => {
    end();
    const open = new Set([...list.querySelectorAll('details.tool[open] .tool-name')].map((one) => one.textContent));
    groups = [...Map.groupBy(entriesOf(tools), ({ tool }) => tool.server)].map(groupOf);
    const chosen = servers.value;
    fill(servers, h('option', { value: '' }, 'All servers'), groups.map(({ server, entries }) => h('option', { value: server }, `${server} (${entries.length})`)));
    servers.value = groups.some(({ server }) => server === chosen) ? chosen : '';
    const places = new Map(groups.map((group) => [group.server, group.rows]));
    fill(list, groups.map((group) => group.box));
    const add = (entry) => {
      entry.part = toolPart(entry.tool);
      entry.part.open = open.has(entry.tool.name);
      places.get(entry.tool.server).append(entry.part);
      return null;
    };
    end = addInSteps(list, groups.flatMap((group) => group.entries), add, draw);
    draw();
  };
  const fail = (problem) => {
    end();
    groups = [];
    fill(about);
    none.hidden = true;
    fill(list, problem);
  };
  return { controls: [servers, filter], about, parts: [kinds, none, list], show, fail, end: () => { clearTimeout(timer); end(); } };
}

/** The tools that clients of `view` have, or the visitor; `changed` are the members that the view changes, by `server/tool`. */
export async function toolsOf(view, changed = new Map()) {
  const { tools } = await get(view ? `/tools?${new URLSearchParams({ view })}` : '/tools');
  const of = (tool) => { const members = changed.get(`${tool.server}/${tool.tool}`) ?? []; return { ...tool, view, ...(members.length > 0 && { changed: members }) }; };
  return view ? tools.map(of) : tools;
}

/** Shows the view. `caller` is another caller, whose tools are shown as it has them. */
export function show(main, caller) {
  const browser = toolBrowser();
  const isOperator = may('superuser');
  const as = h('select', { 'aria-label': 'As', 'data-focus': 'as' }, h('option', { value: '' }, 'As you'));
  const head = heading('Tools', null, isOperator && [as, whyButton(null)], ...browser.controls);
  const whose = h('p', { class: 'quiet', hidden: !caller });
  head.firstChild.append(browser.about);
  fill(main, head, whose, browser.parts);
  let isOver = false;
  as.addEventListener('change', () => { location.hash = as.value === '' ? '#/tools' : `#/tools/${encodeURIComponent(as.value)}`; });
  const load = async () => {
    try {
      let view = null;
      if (isOperator) {
        const callers = await loadCallers();
        if (isOver) return;
        fill(as, callerOptions(callers, 'As you'));
        as.value = caller ?? '';
        view = viewOf(callers, caller ?? '');
      }
      if (caller && (view === undefined || !isOperator)) { browser.fail(h('p', { class: 'empty' }, isOperator ? 'There is no such caller.' : 'Your role may not see the tools of others.')); return; }
      if (caller) fill(whose, `As ${nameOf(caller)} has them${view === null ? ': without a view, so all of them' : caller.startsWith('key:') ? `, by the view ${view}` : ''}. A call here is made by you.`);
      const tools = await toolsOf(view);
      if (!isOver) browser.show(tools);
    } catch (error) {
      if (!isOver) browser.fail(h('p', { class: 'problem' }, error.code === 'view_not_found' ? 'There is no such view, so this caller sees nothing.' : told(error)));
    }
  };
  load();
  return () => { isOver = true; browser.end(); };
}
