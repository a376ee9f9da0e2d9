// View: API keys, made and revoked.

import { checked, get, may, remove, send, visitor } from './api.js';
import { action, dialog, dialogForm, told } from './actions.js';
import { badge, button, copied, field, fill, h, heading, table, toast } from './dom.js';

const ROLES = { reader: 'reader: may look', caller: 'caller: may call tools', superuser: 'superuser: may operate the gateway' };

function row(key, canChange, load) {
  const isOwn = visitor.principal === `key:${key.id}`;
  const end = canChange && key.stored_in === 'keys_file' && action('Revoke', {
    title: `Revoke ${key.id}?`, verb: 'Revoke', danger: true, done: `${key.id} is revoked`,
    text: isOwn ? 'This is the key that you signed in with. Your session ends.' : 'It is refused at once, and its sessions and streams end.',
  }, async () => { await remove(`/keys/${encodeURIComponent(key.id)}`); load(); }, { 'aria-label': `Revoke ${key.id}` });
  const isOver = key.expires && Date.parse(key.expires) < Date.now();
  return h('tr', {}, h('td', {}, h('code', {}, key.id), isOwn && h('span', { class: 'quiet' }, ' (yours)')), h('td', {}, key.role, key.view && [h('span', { class: 'quiet' }, ' for '), h('a', { href: `#/views/${encodeURIComponent(key.view)}` }, key.view)]),
    h('td', { class: 'wide' }, key.added?.slice(0, 10) ?? '–'), h('td', {}, key.expires?.slice(0, 10) ?? 'never', isOver && [' ', badge('expired', 'off')]),
    h('td', { class: 'wide' }, key.stored_in === 'keys_file' ? 'keys_file' : 'api_keys'), h('td', {}, end));
}

/** Shows a key this once. */
function once({ id, key }) {
  dialog(`The key ${id}`, (close) => {
    const text = h('pre', { class: 'code wrap', tabindex: '0', role: 'region', 'aria-label': 'The key' }, key);
    const copy = button('Copy', async () => { if (await copied(key, text)) toast('copied'); }, { class: 'primary' });
    return [h('p', {}, 'It is shown this once, and stored nowhere. Send it as ', h('code', {}, 'Authorization: Bearer …'), ' or ', h('code', {}, 'X-API-Key'), '.'), text,
      h('div', { class: 'dialog-foot' }, copy, button('Done', close))];
  });
}

function making(load) {
  return button('Make a key', () => dialog('Make a key', (close) => {
    const name = h('input', { type: 'text', autocomplete: 'off', autofocus: true, required: true });
    const role = h('select', {}, Object.entries(ROLES).map(([value, text]) => h('option', { value }, text)));
    role.value = 'caller';
    const expires = h('input', { type: 'date' });
    const view = h('input', { type: 'text', autocomplete: 'off' });
    const fields = [field('Name', name, 'Lower-case letters, digits and -. Logs show it.'), field('Role', role), field('Expires', expires),
      field('View', view, 'Optional: one of the views of the configuration file. The key then reaches nothing else.'),
      h('p', { class: 'quiet small' }, 'The audit log records it with your name.')];
    return dialogForm(close, 'Make the key', fields, async () => {
      const body = { role: role.value, ...(expires.value && { expires: expires.value }), ...(view.value.trim() && { view: view.value.trim() }) };
      const made = await (await checked(await send('PUT', `/keys/${encodeURIComponent(name.value.trim())}`, { body }))).json();
      close();
      once(made);
      load();
    });
  }), { 'data-focus': 'make-key' });
}

/** Shows the view. */
export function show(main) {
  const list = h('div', {}, h('p', { class: 'quiet' }, 'Loading…'));
  const actions = h('span', {});
  fill(main, heading('Keys', 'The API keys of this gateway. Only their hashes are stored.', actions), list);
  if (!may('superuser')) { fill(list, h('p', { class: 'empty' }, 'Your role may not see keys.')); return () => {}; }
  let isOver = false;
  const load = async () => {
    try {
      const { keys, can_change: canChange } = await get('/keys');
      if (isOver) return;
      fill(actions, canChange && making(load));
      const how = !canChange && h('p', { class: 'quiet' }, 'To make and revoke keys here, add keys_file: switchyard-keys.json below server: in the configuration file, and reload.');
      const columns = ['Name', 'Role', { title: 'Added', kind: 'wide' }, 'Expires', { title: 'Stored in', kind: 'wide' }, 'Action'];
      fill(list, how, keys.length > 0 ? table('Keys', columns, keys.map((key) => row(key, canChange, load))) : h('p', { class: 'empty' }, 'There is no key.'));
    } catch (error) {
      if (!isOver) fill(list, h('p', { class: error.status === 404 ? 'empty' : 'problem' }, told(error)));
    }
  };
  load();
  return () => { isOver = true; };
}
