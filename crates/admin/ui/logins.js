// View: logins of the visitor at servers, and the secrets that servers need of the visitor.

import { get, may, ofServer, post, remove, visitor } from './api.js';
import { confirmed, dialog, told } from './actions.js';
import { badge, button, fill, h, heading, toast } from './dom.js';
import { fillSecrets } from './secrets.js';
import { state, watch } from './state.js';

const STATES = { logged_in: ['logged in', 'good'], login_required: ['login required', 'warn'], not_required: ['no login needed', 'off'] };

/** The login at a server; null if nobody logs in there. */
async function loginOf(name) {
  try { return await get(ofServer(name, '/login')); } catch (error) {
    if (error.status === 401) throw error;
    return null;
  }
}

async function begin(name) {
  try {
    const { url } = await post(ofServer(name, '/login'));
    const page = new URL(url, location.href);
    const isOwn = page.origin === location.origin && page.pathname.endsWith('/oauth/start');
    dialog(`Log in to ${name}`, (close) => [
      h('p', {}, 'A page of this gateway opens. It shows where you will be sent, and asks you to agree.'),
      isOwn ? h('p', {}, h('a', { href: page.href, target: '_blank', rel: 'noopener', class: 'button primary', onclick: () => setTimeout(close, 0) }, 'Open the login page'))
        : h('p', { class: 'code wrap' }, url),
    ]);
  } catch (error) {
    toast(error.message, 'bad');
  }
}

function end(name, redraw) {
  confirmed({ title: `Log out of ${name}?`, verb: 'Log out', danger: true, text: 'The tokens are deleted, and revoked where the login service can.' }, async () => {
    await remove(ofServer(name, '/login'));
    toast(`logged out of ${name}`);
    redraw();
  });
}

function card(login, redraw) {
  const facts = [login.account && ['Account', login.account], login.scopes?.length > 0 && ['Scopes', login.scopes.join(' ')],
    login.expires_at && ['Token until', login.expires_at], ['Used by', login.per === 'shared' ? 'all principals' : `you (${visitor.principal})`],
    login.reason && ['Reason', login.reason], login.failure && ['Last attempt', `failed: ${login.failure.reason}`]].filter(Boolean);
  const mayChange = login.per === 'shared' ? may('superuser') : may('caller');
  return h('article', { class: 'change', 'aria-label': `Login at ${login.server}` },
    h('div', { class: 'heading small-heading' }, h('div', {}, h('h2', {}, login.server), h('p', {}, badge(...(STATES[login.state] ?? [login.state, 'warn'])))),
      mayChange && h('div', { class: 'actions' },
        button(login.state === 'logged_in' ? 'Log in again' : 'Log in', () => begin(login.server), { class: 'primary' }),
        login.state === 'logged_in' && button('Log out', () => end(login.server, redraw)))),
    h('dl', { class: 'facts' }, facts.map(([name, value]) => h('div', { class: 'fact' }, h('dt', {}, name), h('dd', {}, value)))));
}

/** The login of one server for its own view; null if it has none. */
export async function loginPart(name) {
  if (!may('caller')) return null;
  const box = h('section', { 'aria-label': 'Login' });
  const draw = async () => {
    const login = await loginOf(name).catch(() => null);
    fill(box, login && card(login, draw));
  };
  await draw();
  return box.childElementCount > 0 ? box : null;
}

/** Shows the view. */
export function show(main) {
  const list = h('div', {}, h('p', { class: 'quiet' }, 'Loading…'));
  const secrets = h('section', { 'aria-label': 'Secrets' });
  fill(main, heading('Logins', 'Servers that need a login (OAuth) or a secret of yours. None of them leaves the gateway, except to its server.'), list, secrets);
  let known = null;
  let isOver = false;
  const load = async () => {
    if (!may('caller')) { fill(list, h('p', { class: 'empty' }, 'Your role may not log in to servers.')); return; }
    fillSecrets(secrets, () => isOver);
    try {
      const { logins } = await get('/logins');
      if (!isOver) fill(list, logins.length > 0 ? logins.map((login) => card(login, load)) : h('p', { class: 'empty' }, 'No server needs a login.'));
    } catch (error) {
      fill(list, h('p', { class: 'problem' }, told(error)));
    }
  };
  const draw = () => {
    const now = JSON.stringify(state.servers?.map((server) => [server.name, server.state]));
    if (now === undefined || now === known) return;
    known = now;
    load();
  };
  draw();
  const stop = watch(draw);
  return () => { isOver = true; stop(); };
}
