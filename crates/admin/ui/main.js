// Starts the dashboard: who the visitor is, which page is open, keys.

import { loadVisitor, signOut, visitor } from './api.js';
import { closeDialogs, confirmed, dialog } from './actions.js';
import { announce, badge, button, clock, fill, fillIfChanged, h, heading, number } from './dom.js';
import { summary } from './health.js';
import { refresh, start, state, stop, watch } from './state.js';
import { themeSwitch } from './theme.js';
import * as servers from './servers.js';
import * as server from './server.js';
import * as tools from './tools.js';
import * as views from './views.js';
import * as calls from './calls.js';
import * as history from './history.js';
import * as changes from './changes.js';
import * as logins from './logins.js';
import * as keys from './keys.js';
import * as people from './people.js';
import * as system from './system.js';
import * as configuration from './configuration.js';

const VIEWS = [
  ['servers', 'Servers', 's', servers], ['tools', 'Tools', 't', tools], ['views', 'Views', 'v', views], ['calls', 'Live calls', 'l', calls],
  ['history', 'History', 'h', history],
  ['changes', 'Changed tools', 'c', changes], ['logins', 'Logins', 'o', logins], ['keys', 'Keys', 'k', keys], ['people', 'People and clients', 'p', people], ['system', 'System', 'y', system],
  ['configuration', 'Configuration', 'f', configuration],
];
const main = document.getElementById('content');
let end = () => {};
let isSignedIn = false;
/** The pages that the gateway has. */
let pages = VIEWS.filter(([id]) => id !== 'people');

function place() {
  const [view, ...rest] = location.hash.replace(/^#\/?/, '').split('/');
  return [view || 'servers', rest.length > 0 ? decode(rest.join('/')) : null];
}

function decode(text) {
  try { return decodeURIComponent(text); } catch { return text; }
}

function navigation() {
  const [now] = place();
  const changed = state.servers?.reduce((sum, one) => sum + one.changed_tool_count, 0) ?? 0;
  const link = ([id, title, key]) => h('li', {}, h('a', { href: `#/${id}`, 'aria-current': id === now ? 'page' : null, 'data-focus': id, title: `g then ${key}` }, title,
    id === 'changes' && changed > 0 && h('span', { class: 'count' }, number(changed), h('span', { class: 'hidden' }, ' to approve'))));
  const nav = document.getElementById('nav');
  fillIfChanged(nav, JSON.stringify([now, changed, pages.length]), () => h('ul', {}, pages.map(link)));
}

/** Opens or closes the menu of a narrow screen, where views and visitor are behind a button. */
function showMenu(isOpen) {
  document.body.classList.toggle('menu-open', isOpen);
  document.getElementById('menu').setAttribute('aria-expanded', String(isOpen));
}

function overall() {
  const lost = document.getElementById('lost');
  const isLost = state.failure !== null;
  document.body.classList.toggle('is-lost', isLost);
  lost.hidden = !isLost;
  const since = state.at === null ? 'It has not answered yet.' : `What you see is from ${clock(state.at)}.`;
  const what = state.failure?.status ? state.failure.message : 'no answer from the gateway';
  fillIfChanged(lost, `${isLost} ${what} ${since}`, () => isLost && [badge(what, 'bad'), h('span', {}, since), button('Try again', refresh, { class: 'small', 'data-focus': 'again' })]);
  if (!state.servers) return;
  const { text, short, kind } = summary(state.servers);
  fillIfChanged(document.getElementById('overall'), text, () => badge([h('span', { class: 'long' }, text), h('span', { class: 'short' }, short)], kind));
}

function visitorPart() {
  const out = button('Sign out', () => confirmed({ title: 'Sign out?', verb: 'Sign out', text: 'The session of this browser ends.' }, async () => {
    await signOut();
    signedOut('You are signed out.');
  }));
  fill(document.getElementById('who'),
    visitor.principal && h('span', { class: 'principal' }, visitor.principal, h('span', { class: 'quiet' }, ` ${visitor.role}`)),
    visitor.principal && button('Shortcuts', help, { class: 'plain keys-button', title: '?', 'aria-keyshortcuts': '?' }), themeSwitch(),
    visitor.csrf ? out : visitor.principal && visitor.can_sign_in && h('a', { class: 'button', href: '../oauth/sign-in?to=ui' }, 'Sign in'));
}

function signedOut(text) {
  if (!isSignedIn && main.dataset.out) return;
  isSignedIn = false;
  main.dataset.out = '1';
  stop();
  end();
  end = () => {};
  closeDialogs();
  showMenu(false);
  state.failure = null;
  overall();
  Object.assign(visitor, { principal: null, role: null, csrf: null });
  for (const id of ['nav', 'overall']) { const box = document.getElementById(id); fill(box); delete box.dataset.key; }
  document.body.classList.add('signed-out');
  visitorPart();
  const how = visitor.can_sign_in ? h('p', {}, h('a', { class: 'button primary', href: '../oauth/sign-in?to=ui' }, 'Sign in'))
    : h('p', {}, 'This gateway has no sign-in under this address. Its operator can set server.public_url, or you open it as localhost.');
  fill(main, h('div', { class: 'welcome' }, h('h1', {}, 'Sign in to see this gateway'), h('p', { class: 'quiet' }, text), how));
  document.title = 'Sign in · Switchyard';
  announce(text);
}

let shown = null;

function route() {
  if (!isSignedIn || location.hash === '#content') return;
  const [id, name] = place();
  const view = VIEWS.find(([one]) => one === id);
  const isFirst = shown === null;
  shown = location.hash;
  closeDialogs();
  showMenu(false);
  end();
  navigation();
  const title = ['servers', 'views'].includes(id) && name !== null ? name : view?.[1] ?? 'Not found';
  document.title = `${title} · Switchyard`;
  if (!view) { fill(main, heading('Not found', 'There is no such page.')); end = () => {}; return; }
  end = id === 'servers' && name !== null ? server.show(main, name) : view[3].show(main, name);
  if (!isFirst) { main.focus({ preventScroll: true }); scrollTo(0, 0); announce(title); }
}

function help() {
  const keys = [['?', 'this list'], ['/', 'go to the filter'], ['r', 'ask the gateway now'], ['Esc', 'close a dialog'],
    ...pages.map(([, title, key]) => [`g ${key}`, title])];
  dialog('Keyboard shortcuts', () => h('dl', { class: 'keys' }, keys.map(([key, text]) => h('div', {}, h('dt', {}, key.split(' ').map((one) => h('kbd', {}, one))), h('dd', {}, text)))));
}

let isGoing = false;

function key(event) {
  const isTyping = event.target.closest?.('input, textarea, select, dialog[open]');
  if (event.key === 'Escape' && document.body.classList.contains('menu-open')) { showMenu(false); document.getElementById('menu').focus(); return; }
  if (isTyping || event.ctrlKey || event.metaKey || event.altKey) return;
  if (isGoing) {
    isGoing = false;
    const view = pages.find(([, , letter]) => letter === event.key);
    if (view) { location.hash = `#/${view[0]}`; event.preventDefault(); }
    return;
  }
  if (event.key === '?') { event.preventDefault(); help(); }
  else if (event.key === '/') { event.preventDefault(); main.querySelector('[data-filter]')?.focus(); }
  else if (event.key === 'r') refresh();
  else if (event.key === 'g') { isGoing = true; setTimeout(() => { isGoing = false; }, 1500); }
}

async function begin() {
  document.addEventListener('keydown', key);
  addEventListener('hashchange', route);
  document.addEventListener('signed-out', () => signedOut('Your session has ended.'));
  document.getElementById('menu').addEventListener('click', () => showMenu(!document.body.classList.contains('menu-open')));
  document.querySelector('.skip').addEventListener('click', (event) => { event.preventDefault(); main.focus(); });
  try { await loadVisitor(); } catch (error) {
    fill(main, heading('No answer', error.message));
    return;
  }
  if (!visitor.principal) { signedOut('The dashboard shows what your key or token may see.'); return; }
  isSignedIn = true;
  document.body.classList.remove('signed-out');
  visitorPart();
  watch(() => { if (isSignedIn) { navigation(); overall(); } });
  route();
  start();
  if (await people.isThere().catch(() => false)) { pages = VIEWS; navigation(); }
}

begin();
