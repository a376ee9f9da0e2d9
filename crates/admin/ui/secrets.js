// Part of the view of logins: the secrets that servers need of the visitor. A value is sent and never read back.

import { checked, get, may, remove, send, visitor } from './api.js';
import { action, dialog, dialogForm, told } from './actions.js';
import { badge, button, date, field, fill, h, table, toast } from './dom.js';

const path = (name) => `/secrets/${encodeURIComponent(name)}`;

/** Asks for the value of a secret. */
function setting(secret, load) {
  return () => dialog(`Set ${secret.name}`, (close) => {
    const value = h('input', { type: 'password', autocomplete: 'off', autofocus: true, required: true, spellcheck: 'false' });
    const used = secret.servers.length > 0 ? `Your calls send it to ${secret.servers.join(', ')}.` : 'No server needs it now.';
    return dialogForm(close, 'Set the secret', field('Value', value, `${used} It is never shown again.`), async () => {
      await checked(await send('PUT', path(secret.name), { body: { value: value.value } }));
      close();
      toast(`${secret.name} is set`);
      load();
    });
  });
}

function row(secret, load) {
  const end = secret.is_set && action('Remove', {
    title: `Remove ${secret.name}?`, verb: 'Remove', danger: true, done: `${secret.name} is removed`,
    text: 'Connections that use it end. Calls to these servers are refused until you set it again.',
  }, async () => { await remove(path(secret.name)); load(); }, { 'aria-label': `Remove ${secret.name}` });
  const set = secret.servers.length > 0 && button(secret.is_set ? 'Change' : 'Set', setting(secret, load),
    { class: secret.is_set ? '' : 'primary', 'aria-label': `${secret.is_set ? 'Change' : 'Set'} ${secret.name}` });
  return h('tr', {}, h('td', {}, h('code', {}, secret.name)), h('td', { class: 'wide' }, secret.servers.join(', ') || '–'),
    h('td', {}, secret.is_set ? badge('set', 'good') : badge('not set', 'warn'), secret.set_at && h('span', { class: 'quiet small' }, ` ${date(secret.set_at)}`)),
    h('td', {}, h('div', { class: 'actions' }, set, end)));
}

/** Fills `box` with the secrets of the visitor, or with nothing if no server needs one. */
export async function fillSecrets(box, isOver) {
  if (!may('caller') || visitor.principal === 'anonymous') return;
  const load = async () => {
    try {
      const { secrets } = await get('/secrets');
      if (isOver()) return;
      const columns = ['Name', { title: 'Servers', kind: 'wide' }, 'Value', 'Action'];
      fill(box, secrets.length > 0 && [h('h2', {}, 'Secrets'), h('p', { class: 'quiet' }, 'Values that servers are sent in your calls, such as an API key of yours.'),
        table('Secrets', columns, secrets.map((secret) => row(secret, load)))]);
    } catch (error) {
      if (!isOver()) fill(box, h('p', { class: 'problem' }, told(error)));
    }
  };
  await load();
}
