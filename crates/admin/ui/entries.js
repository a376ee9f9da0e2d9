// Adds, changes and removes servers of the configuration file. Each change is checked and shown before it is written.

import { checked, may, ofServer, send, visitor } from './api.js';
import { dialog, told } from './actions.js';
import { difference } from './diff.js';
import { announce, button, field, fill, h, toast } from './dom.js';
import { refresh } from './state.js';

/** Whether the visitor may change the file: never without authentication. */
export function mayChangeFile() {
  return may('superuser') && visitor.principal !== 'anonymous';
}

async function change(method, name, body, isDry) {
  return (await checked(await send(method, `${ofServer(name)}${isDry ? '?dry_run=true' : ''}`, { body }))).json();
}

/** The difference of the entry, and what else there is to know. */
function shown(found) {
  const isSame = JSON.stringify(found.before) === JSON.stringify(found.after) && found.notes.length === 0;
  return [isSame && h('p', { class: 'quiet' }, 'This changes nothing.'),
    difference(found.before ?? null, found.after ?? null, `Change of ${found.server}`),
    found.notes.length > 0 && h('ul', {}, found.notes.map((note) => h('li', {}, note)))];
}

function result({ server, written, backup, reloaded, not_reloaded: not }) {
  if (!written) return `${server}: nothing changed`;
  const kept = backup ? `; the file before is ${backup}` : '';
  if (not) return `${server}: the file is written${kept}, but not in effect: ${not}`;
  const is = (list) => (reloaded?.[list] ?? []).includes(server);
  return `${server}: written and ${is('not_configured') ? 'not configured, because its entry has a mistake' : 'in effect'}${kept}`;
}

/** The parts of a dialog that check a change, show it, and write it. `request` returns `[method, name, body]`. */
function steps(request, verb, isDanger, close, check = 'Check') {
  const preview = h('div', {});
  const problem = h('p', { class: 'problem', role: 'alert', hidden: true });
  let looked = null;
  const tried = async (work) => {
    problem.hidden = true;
    try { await work(); } catch (error) {
      fill(problem, told(error));
      problem.hidden = false;
    }
  };
  const write = button(verb, () => tried(async () => {
    write.disabled = true;
    const done = await change(...JSON.parse(looked));
    close();
    toast(result(done), done.not_reloaded ? 'bad' : 'good');
    refresh();
  }), { class: isDanger ? 'danger' : 'primary', disabled: true });
  const look = button(check, () => tried(async () => {
    const wanted = JSON.stringify(request());
    const [method, name, body] = JSON.parse(wanted);
    fill(preview, shown(await change(method, name, body, true)));
    looked = wanted;
    write.disabled = false;
    announce('the change is shown; it is not written yet');
  }));
  // What is written is what was shown.
  const changed = () => { looked = null; write.disabled = true; fill(preview); };
  const foot = h('div', { class: 'dialog-foot' }, button('Cancel', close), look, write);
  return { look, changed, parts: [preview, problem, h('p', { class: 'quiet small' }, 'The file before is kept as a backup, and the audit log records the change with your name.'), foot] };
}

/** Reads lines `Name: value`. */
function headersOf(text) {
  const pairs = text.split('\n').filter((line) => line.trim() !== '').map((line) => {
    const at = line.indexOf(':');
    if (at < 1) throw new Error('A header is a line such as Authorization: Bearer …');
    return [line.slice(0, at).trim(), line.slice(at + 1).trim()];
  });
  return Object.fromEntries(pairs);
}

function inputs() {
  const url = h('input', { type: 'url', autocomplete: 'off' });
  const headers = h('textarea', { rows: 2, spellcheck: 'false', autocomplete: 'off', class: 'mono' });
  const login = h('select', {}, h('option', { value: 'false' }, 'no'), h('option', { value: 'true' }, 'yes, with OAuth'));
  const about = h('input', { type: 'text', autocomplete: 'off' });
  return { url, headers, login, about };
}

/** A text as YAML: JSON is. */
const quoted = (text) => (/^[A-Za-z][\w./-]*$/.test(text) && !/^(true|false|null|yes|no|on|off)$/i.test(text) ? text : JSON.stringify(text));

/** The entry of a program, to paste. */
function program(name, line) {
  const [command, ...words] = (line.match(/"(?:[^"\\]|\\.)*"|'[^']*'|\S+/g) ?? []).map((word) => word.replace(/^(["'])(.*)\1$/, '$2'));
  return `  ${quoted(name || 'name')}:\n    command: ${quoted(command ?? 'program')}\n${words.length > 0 ? `    args: [${words.map((word) => JSON.stringify(word)).join(', ')}]\n` : ''}`;
}

function ofUrl(close, name) {
  const { url, headers, login, about } = inputs();
  const request = () => {
    if (name.value.trim() === '') throw new Error('The server needs a name.');
    if (url.value.trim() === '') throw new Error('The server needs a URL.');
    const all = headersOf(headers.value);
    return ['PUT', name.value.trim(), { url: url.value.trim(), ...(Object.keys(all).length > 0 && { headers: all }),
      ...(login.value === 'true' && { oauth: true }), ...(about.value.trim() && { description: about.value.trim() })}];
  };
  const { changed, parts } = steps(request, 'Write and reload', false, close);
  const fields = [field('URL', url), field('Headers', headers, 'One on each line, as Name: value. They are stored in the file as they are; a reference to a variable is written in the file.'),
    field('Needs a login', login), field('Description', about)];
  for (const input of [name, url, headers, login, about]) input.addEventListener('input', changed);
  return [fields, parts];
}

function ofProgram(close, name) {
  const line = h('input', { type: 'text', placeholder: 'npx -y @modelcontextprotocol/server-memory', autocomplete: 'off', class: 'mono' });
  const text = h('pre', { class: 'code', tabindex: '0', role: 'region', 'aria-label': 'Entry to paste' });
  const draw = () => fill(text, program(name.value.trim(), line.value.trim()));
  for (const input of [name, line]) input.addEventListener('input', draw);
  draw();
  return [field('Command', line), h('p', {}, 'No client of the gateway can make it start a program. Paste this below ', h('code', {}, 'mcp_servers:'), ' in the configuration file, then reload:'), text,
    h('div', { class: 'dialog-foot' }, button('Close', close))];
}

/** The button that adds a server. */
export function addServer() {
  if (!mayChangeFile()) return null;
  const open = () => dialog('Add a server', (close) => {
    const name = h('input', { type: 'text', autocomplete: 'off', autofocus: true });
    const kind = h('select', {}, h('option', { value: 'url' }, 'A URL'), h('option', { value: 'program' }, 'A program on the machine of the gateway'));
    const rest = h('div', {});
    const draw = () => fill(rest, kind.value === 'url' ? ofUrl(close, name) : ofProgram(close, name));
    kind.addEventListener('change', draw);
    draw();
    return h('form', { onsubmit: (event) => event.preventDefault() }, field('Name', name), field('The server is', kind), rest);
  });
  return button('Add server', open, { 'data-focus': 'add-server' });
}

/** The buttons that change and remove the entry of a server. */
export function entryButtons(server) {
  if (!mayChangeFile()) return [];
  const edit = () => dialog(`Edit ${server.name}`, (close) => {
    const { url, headers, login, about } = inputs();
    login.prepend(h('option', { value: '', selected: true }, 'as it is'));
    login.value = '';
    about.value = server.description ?? '';
    const enabled = h('select', {}, h('option', { value: '' }, 'as it is'), h('option', { value: 'true' }, 'yes'), h('option', { value: 'false' }, 'no'));
    const request = () => ['PATCH', server.name, { ...(url.value.trim() && { url: url.value.trim() }), ...(headers.value.trim() && { headers: headersOf(headers.value) }),
      ...(login.value && { oauth: login.value === 'true' }), ...(enabled.value && { enabled: enabled.value === 'true' }),
      ...(about.value.trim() && about.value.trim() !== server.description && { description: about.value.trim() })}];
    const { changed, parts } = steps(request, 'Write and reload', false, close);
    const isHttp = ['http', 'sse'].includes(server.transport);
    for (const input of [url, headers, login, about, enabled]) input.addEventListener('input', changed);
    return h('form', { onsubmit: (event) => event.preventDefault() }, h('p', { class: 'quiet' }, 'What is left empty stays as it is.'),
      isHttp && [field('URL', url, `Now ${server.url ?? ''}. With another one, the headers have to be given again.`), field('Headers', headers, 'They replace all headers before. One on each line, as Name: value.'), field('Needs a login', login)],
      field('Description', about), field('Enabled', enabled), parts);
  });
  const remove = () => {
    let look;
    dialog(`Remove ${server.name}?`, (close) => {
      const made = steps(() => ['DELETE', server.name], 'Remove and reload', true, close, 'Look again');
      look = made.look;
      return [h('p', {}, 'Its entry leaves the configuration file, its tools leave all lists, and its calls end.'), made.parts];
    });
    look.click();
  };
  return [button('Edit', edit, { 'data-focus': 'edit-entry' }), button('Remove', remove, { class: 'danger', 'data-focus': 'remove-entry' })];
}
