// View: the tools of all servers, with a search.

import { get } from './api.js';
import { told } from './actions.js';
import { fill, h, heading, number, announce } from './dom.js';
import { toolPart } from './server.js';

const MOST = 200;

/** Shows the view. */
export function show(main) {
  const filter = h('input', { type: 'search', placeholder: 'Find a tool', 'aria-label': 'Find a tool', class: 'filter', 'data-filter': true });
  const list = h('div', {}, h('p', { class: 'quiet' }, 'Loading…'));
  const about = h('p', { class: 'quiet' });
  const head = heading('Tools', null, filter);
  head.firstChild.append(about);
  fill(main, head, list);
  let tools = [];
  let isOver = false;
  const draw = () => {
    const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    const text = (tool) => `${tool.name} ${tool.server} ${tool.definition?.title ?? ''} ${tool.definition?.description ?? ''}`.toLowerCase();
    const found = tools.filter((tool) => words.every((word) => text(tool).includes(word)));
    fill(about, `${number(found.length)} of ${number(tools.length)}`);
    const none = h('p', { class: 'empty' }, tools.length === 0 ? 'No server offers a tool now.' : 'No tool has these words.');
    fill(list, found.length > 0 ? found.slice(0, MOST).map((tool) => toolPart(tool, false, true)) : none,
      found.length > MOST && h('p', { class: 'quiet' }, `The first ${MOST} are shown. Search to see others.`));
  };
  let timer;
  filter.addEventListener('input', () => {
    clearTimeout(timer);
    timer = setTimeout(() => { draw(); announce(about.textContent); }, 120);
  });
  all().then((found) => { tools = found; if (!isOver) draw(); }, (error) => fill(list, h('p', { class: 'problem' }, told(error))));
  return () => { isOver = true; clearTimeout(timer); };
}

// The answer may have pages (`next_cursor`).
async function all() {
  const tools = [];
  let cursor;
  do {
    const page = await get(cursor ? `/tools?cursor=${encodeURIComponent(cursor)}` : '/tools');
    tools.push(...page.tools);
    cursor = page.next_cursor;
  } while (cursor && tools.length < 20000);
  return tools;
}
