// One tool: description, annotations, form and definition.

import { may } from './api.js';
import { callPanel } from './call.js';
import { button, fill, h, json, number } from './dom.js';
import { askWhy } from './why.js';

/** The kinds of tools by what their annotations say. */
export const KINDS = [
  ['read', 'read only', ({ readOnlyHint }) => readOnlyHint === true],
  ['destructive', 'destructive', ({ readOnlyHint, destructiveHint }) => readOnlyHint !== true && destructiveHint === true],
  ['idempotent', 'idempotent', ({ idempotentHint }) => idempotentHint === true],
  ['open', 'open world', ({ openWorldHint }) => openWorldHint === true],
  ['none', 'not annotated', (annotations) => !HINTS.some((hint) => typeof annotations[hint] === 'boolean')],
];
const HINTS = ['readOnlyHint', 'destructiveHint', 'idempotentHint', 'openWorldHint'];
/** The hints in `_meta` that some clients know. */
const CLIENT_HINTS = [
  ['anthropic/alwaysLoad', () => 'always loaded'],
  ['anthropic/requiresUserInteraction', () => 'the user agrees to each call'],
  ['anthropic/maxResultSizeChars', (most) => `at most ${number(most)} characters`],
];

/** The kinds of a tool. */
export function kindsOf(tool) {
  const annotations = tool.definition?.annotations ?? {};
  return KINDS.filter(([, , fits]) => fits(annotations)).map(([kind]) => kind);
}

function hintsOf({ definition }) {
  const meta = definition?._meta ?? {};
  return CLIENT_HINTS.filter(([name]) => meta[name] !== undefined && meta[name] !== false).map(([name, word]) => word(meta[name]));
}

function tags(tool) {
  const kinds = kindsOf(tool);
  const word = (kind) => KINDS.find(([one]) => one === kind)[1];
  return [...['read', 'destructive'].filter((kind) => kinds.includes(kind)).map((kind) => h('span', { class: `tag ${kind}` }, word(kind))),
    tool.changed && h('span', { class: 'tag' }, 'changed')];
}

/** What is said about a tool beside its description. */
function remarks(tool) {
  const kinds = KINDS.filter(([kind]) => kind !== 'none' && kindsOf(tool).includes(kind)).map(([, word]) => word);
  const lines = [kinds.length > 0 && `Annotations: ${kinds.join(', ')}`, hintsOf(tool).length > 0 && `Hints for clients: ${hintsOf(tool).join(', ')}`,
    tool.changed && `Changed by the view: ${tool.changed.join(', ')}`, tool.changed?.includes('name') && `Name at the server: ${tool.tool}`].filter(Boolean);
  return lines.map((line) => h('p', { class: 'quiet small' }, line));
}

/** A tool that can be opened. Its form is made when that happens. `tool` may have the `view` whose clients have it, and the members that are `changed` there. */
export function toolPart(tool) {
  const definition = tool.definition ?? {};
  const body = h('div', { class: 'tool-body' });
  const details = h('details', { class: 'tool', 'data-tool': tool.tool }, h('summary', {},
    h('span', { class: 'tool-name' }, tool.name),
    h('span', { class: 'quiet one-line' }, ` ${[definition.title, definition.description].filter(Boolean).join(' · ')}`),
    tags(tool)), body);
  const open = () => {
    if (!details.open || body.childElementCount > 0) return;
    const why = may('superuser') && button('Why is it here?', () => askWhy({ tool: `${tool.server}/${tool.tool}`, view: tool.view }), { class: 'small' });
    fill(body, definition.description && h('p', { class: 'text' }, definition.description), remarks(tool), why,
      h('h3', {}, 'Call'), callPanel(tool),
      h('details', {}, h('summary', {}, 'Definition'), json(definition, `Definition of ${tool.name}`)));
  };
  details.addEventListener('toggle', open);
  return details;
}
