// A call as commands for a shell, without the key of anybody.

import { dialog } from './actions.js';
import { visitor } from './api.js';
import { copyBlock, h } from './dom.js';
import { INVISIBLE } from './invisible.js';

/** Where a program keeps its key. A shell puts it in, so the copied text has none. */
const KEY = 'SWITCHYARD_KEY';

/** A text for a shell, which changes nothing in it. */
export function quoted(text) {
  return /^[\w./:=@%+,-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
}

/** The address of `path`, which is relative to the dashboard. */
export function addressOf(path) {
  return new URL(path, location.href.replace(/#.*/, '')).href;
}

/** JSON without invisible characters, so that the text that is read is the one that is copied. */
function jsonOf(value) {
  const escaped = (c) => [...Array(c.length).keys()].map((at) => `\\u${c.charCodeAt(at).toString(16).padStart(4, '0')}`).join('');
  return JSON.stringify(value).replace(INVISIBLE, escaped);
}

/** The request that calls `tool`: at its server, or under the name that clients of its `view` have for it. */
export function requestOf({ server, tool, name, view }, given) {
  return view ? { view, tool: name, arguments: given } : { server, tool, arguments: given };
}

/** The commands that make a call: `[[title, text]]`. */
function commandsOf(tool, given) {
  const needsKey = visitor.csrf !== null;
  const curl = ['curl -sS ' + quoted(addressOf('../api/v1/mcp/call')), needsKey && `-H "Authorization: Bearer $${KEY}"`, "-H 'Content-Type: application/json'",
    `-d ${quoted(jsonOf(requestOf(tool, given)))}`];
  const cli = ['switchyard call ' + quoted(tool.name), `--url ${quoted(addressOf('..').replace(/\/$/, ''))}`, `--json ${quoted(jsonOf(given))}`];
  // A command calls as the holder of its key, who may not have the view.
  return [['curl', curl], ...(tool.view ? [] : [['Command line', cli]])].map(([title, parts]) => [title, parts.filter(Boolean).join(' \\\n  ')]);
}

/** Opens the commands that call `tool` with the arguments `given`. */
export function showCommands(tool, given) {
  dialog(`Call ${tool.name} from a shell`, () => [
    visitor.csrf !== null && h('p', { class: 'quiet' }, 'Both read your key from the variable ', h('code', {}, KEY), '. It is in neither text.'),
    commandsOf(tool, given).map(([title, text]) => copyBlock(title, text))]);
}
