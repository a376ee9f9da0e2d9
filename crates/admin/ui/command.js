// A call as commands for a shell, without the key of anybody.

import { dialog } from './actions.js';
import { visitor } from './api.js';
import { button, copied, fill, h } from './dom.js';
import { INVISIBLE } from './invisible.js';

/** Where a program keeps its key. A shell puts it in, so the copied text has none. */
const KEY = 'SWITCHYARD_KEY';

/** A text for a shell, which changes nothing in it. */
function quoted(text) {
  return /^[\w./:=@%+,-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
}

/** JSON without invisible characters, so that the text that is read is the one that is copied. */
function jsonOf(value) {
  const escaped = (c) => [...Array(c.length).keys()].map((at) => `\\u${c.charCodeAt(at).toString(16).padStart(4, '0')}`).join('');
  return JSON.stringify(value).replace(INVISIBLE, escaped);
}

/** The commands that make a call: `[[title, text]]`. */
function commandsOf({ server, tool, name }, given) {
  const at = (path) => new URL(path, location.href.replace(/#.*/, '')).href;
  const needsKey = visitor.csrf !== null;
  const curl = ['curl -sS ' + quoted(at('../api/v1/mcp/call')), needsKey && `-H "Authorization: Bearer $${KEY}"`, "-H 'Content-Type: application/json'",
    `-d ${quoted(jsonOf({ server, tool, arguments: given }))}`];
  const cli = ['switchyard call ' + quoted(name), `--url ${quoted(at('..').replace(/\/$/, ''))}`, `--json ${quoted(jsonOf(given))}`];
  return [['curl', curl], ['Command line', cli]].map(([title, parts]) => [title, parts.filter(Boolean).join(' \\\n  ')]);
}

/** Opens the commands that call `tool` with the arguments `given`. */
export function showCommands(tool, given) {
  const part = ([title, text]) => {
    const box = h('pre', { class: 'code wrap', tabindex: '0', role: 'region', 'aria-label': title }, text);
    const said = h('span', { class: 'quiet small', role: 'status' });
    const copy = async () => fill(said, await copied(text, box) ? 'copied' : 'selected: copy it with the keyboard');
    return h('section', { class: 'command' }, h('div', { class: 'command-head' }, h('h3', {}, title), said, button('Copy', copy, { class: 'small', 'aria-label': `Copy ${title}` })), box);
  };
  dialog(`Call ${tool.name} from a shell`, () => [
    visitor.csrf !== null && h('p', { class: 'quiet' }, 'Both read your key from the variable ', h('code', {}, KEY), '. It is in neither text.'),
    commandsOf(tool, given).map(part)]);
}
