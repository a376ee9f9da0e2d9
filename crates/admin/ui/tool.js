// One tool: description, annotations, form and definition.

import { callPanel } from './call.js';
import { fill, h, json } from './dom.js';

/** The kinds of tools by what their annotations say. */
export const KINDS = [
  ['read', 'read only', ({ readOnlyHint }) => readOnlyHint === true],
  ['destructive', 'destructive', ({ readOnlyHint, destructiveHint }) => readOnlyHint !== true && destructiveHint === true],
  ['idempotent', 'idempotent', ({ idempotentHint }) => idempotentHint === true],
  ['open', 'open world', ({ openWorldHint }) => openWorldHint === true],
  ['none', 'not annotated', (annotations) => !HINTS.some((hint) => typeof annotations[hint] === 'boolean')],
];
const HINTS = ['readOnlyHint', 'destructiveHint', 'idempotentHint', 'openWorldHint'];

/** The kinds of a tool. */
export function kindsOf(tool) {
  const annotations = tool.definition?.annotations ?? {};
  return KINDS.filter(([, , fits]) => fits(annotations)).map(([kind]) => kind);
}

function tags(tool) {
  const kinds = kindsOf(tool);
  const word = (kind) => KINDS.find(([one]) => one === kind)[1];
  return ['read', 'destructive'].filter((kind) => kinds.includes(kind)).map((kind) => h('span', { class: `tag ${kind}` }, word(kind)));
}

/** A tool that can be opened. Its form is made when that happens. */
export function toolPart(tool) {
  const definition = tool.definition ?? {};
  const body = h('div', { class: 'tool-body' });
  const details = h('details', { class: 'tool', 'data-tool': tool.tool }, h('summary', {},
    h('span', { class: 'tool-name' }, tool.name),
    h('span', { class: 'quiet one-line' }, ` ${[definition.title, definition.description].filter(Boolean).join(' · ')}`),
    tags(tool)), body);
  const open = () => {
    if (!details.open || body.childElementCount > 0) return;
    const kinds = KINDS.filter(([kind]) => kind !== 'none' && kindsOf(tool).includes(kind)).map(([, word]) => word);
    fill(body, definition.description && h('p', { class: 'text' }, definition.description),
      kinds.length > 0 && h('p', { class: 'quiet small' }, `The server says: ${kinds.join(', ')}`),
      h('h3', {}, 'Call'), callPanel(tool),
      h('details', {}, h('summary', {}, 'Definition'), json(definition, `Definition of ${tool.name}`)));
  };
  details.addEventListener('toggle', open);
  return details;
}
