// What one server offers: tools, resources, templates and prompts, each of which can be used.

import { get, may, ofServer, post } from './api.js';
import { told } from './actions.js';
import { failed, requestForm } from './call.js';
import { addInSteps, announce, badge, choices, duration, fill, fillIfChanged, h, json, number } from './dom.js';
import { contentBlock, resourceContents } from './media.js';
import { toolPart } from './tool.js';

const KINDS = {
  tools: { title: 'Tools', count: 'tool_count', list: (name) => get(ofServer(name, '/tools')).then(({ tools }) => tools), part: toolPart },
  resources: { title: 'Resources', count: 'resource_count', list: (name) => items('/resources', name), part: (item) => offerPart(item, readForm(item.name)) },
  templates: { title: 'Templates', count: 'template_count', list: (name) => items('/resources/templates', name), part: (item) => offerPart(item, templateForm) },
  prompts: { title: 'Prompts', count: 'prompt_count', list: (name) => items('/prompts', name), part: (item) => offerPart(item, promptForm) },
};

async function items(path, server) {
  return (await get(`${path}?${new URLSearchParams({ server })}`)).items;
}

/** A resource, template or prompt that can be opened. `form` makes what is in it. */
function offerPart(item, form) {
  const { title, description, mimeType } = item.definition ?? {};
  const body = h('div', { class: 'tool-body' });
  const details = h('details', { class: 'tool', 'data-tool': item.name }, h('summary', {}, h('span', { class: 'tool-name' }, item.name),
    h('span', { class: 'quiet one-line' }, ` ${[title ?? item.definition?.name, description].filter((one) => one && one !== item.name).join(' · ')}`),
    mimeType && h('span', { class: 'tag' }, mimeType)), body);
  details.addEventListener('toggle', () => {
    if (!details.open || body.childElementCount > 0) return;
    fill(body, description && h('p', { class: 'text' }, description), may('caller') ? form(item) : h('p', { class: 'quiet' }, 'Your role may not read it.'),
      h('details', {}, h('summary', {}, 'Definition'), json(item.definition, `Definition of ${item.name}`)));
  });
  return details;
}

/** A form whose answer is what `ask` gets from the server, shown by `parts`. */
function askForm({ schema, verb, ask, parts }) {
  const send = async (given, output, signal) => {
    fill(output, h('p', { class: 'quiet' }, 'Running…'));
    try {
      const answer = await ask(given, { signal });
      fill(output, h('div', { class: 'result good' }, h('h3', {}, badge('answered', 'good'), h('span', { class: 'quiet' }, ` ${duration(answer.duration_ms)}`)), parts(answer.result),
        h('details', {}, h('summary', {}, 'Complete answer'), json(answer, 'Complete answer'))));
      announce('the server answered');
    } catch (error) {
      fill(output, failed(error));
      announce('the request failed', true);
    }
  };
  return requestForm({ schema, verb, send });
}

const object = (properties, required) => ({ type: 'object', properties, required });
const contents = ({ contents: all }) => (all ?? []).map(resourceContents);
const read = (uri, options) => post('/resources/read', { uri }, options);

function readForm(uri) {
  return () => askForm({ verb: 'Read', ask: (_, options) => read(uri, options), parts: contents });
}

/** A template is read by the URI that somebody makes of it. */
function templateForm({ name }) {
  const schema = object({ uri: { type: 'string', description: `made of ${name}`, default: name } }, ['uri']);
  return askForm({ schema, verb: 'Read', ask: ({ uri }, options) => read(uri, options), parts: contents });
}

function promptForm({ name, definition }) {
  const given = definition?.arguments ?? [];
  const properties = Object.fromEntries(given.map((one) => [one.name, { type: 'string', title: one.title, description: one.description }]));
  const schema = object(properties, given.filter((one) => one.required).map((one) => one.name));
  const message = ({ role, content }) => h('section', { class: 'message' }, h('h4', {}, role), [content].flat().map(contentBlock));
  return askForm({ schema, verb: 'Get', ask: (values, options) => post(`/prompts/${encodeURIComponent(name)}`, { arguments: values }, options),
    parts: ({ messages }) => (messages ?? []).map(message) });
}

/** The part of a page for the offer of `server`: an element, and the function that takes the state of the server. */
export function offersOf(server) {
  const [tabs, list] = [h('div', { class: 'tabs' }), h('div', {}, h('p', { class: 'quiet' }, 'Loading…'))];
  const heading = h('h2', { id: 'offer-title' }, 'Tools');
  const element = h('section', { 'aria-labelledby': 'offer-title' }, tabs, heading, list);
  let [kind, known, end] = ['tools', null, () => {}];

  const load = async () => {
    const { title, list: ask, part } = KINDS[kind];
    const turn = known;
    try {
      const all = await ask(server);
      if (turn !== known) return;
      fill(heading, `${title} (${number(all.length)})`);
      // A form that is being filled in stays, unless the definitions are others.
      const key = JSON.stringify([kind, all]);
      if (list.dataset.key === key) return;
      list.dataset.key = key;
      const open = new Set([...list.querySelectorAll('details.tool[open]')].map((one) => one.dataset.tool));
      end();
      const rows = h('div', { class: 'rows' });
      fill(list, all.length > 0 ? rows : h('p', { class: 'empty' }, `This server offers no ${title.toLowerCase()} now.`));
      end = addInSteps(rows, all, (item) => {
        const made = part(item);
        if (open.has(made.dataset.tool)) made.open = true;
        return made;
      });
    } catch (error) {
      if (turn !== known) return;
      delete list.dataset.key;
      fill(list, h('p', { class: 'problem' }, told(error)));
    }
  };

  const update = (status) => {
    element.hidden = !status.transport;
    if (element.hidden) return;
    const options = Object.entries(KINDS).filter(([one, { count }]) => one === 'tools' || status[count] > 0).map(([one, { title, count }]) => [one, title, status[count]]);
    if (!options.some(([one]) => one === kind)) kind = 'tools';
    // The choice is a heading too.
    heading.classList.toggle('hidden', options.length > 1);
    const pick = (value) => { kind = value; update(status); };
    fillIfChanged(tabs, JSON.stringify([options, kind]), () => options.length > 1 && choices('Offer', options, kind, pick));
    const now = JSON.stringify([kind, options, status.state, status.changed_tools]);
    if (now === known) return;
    known = now;
    load();
  };
  return { element, update };
}
