// View: which person granted what to which client at the authorization server, and the clients themselves.

import { get, may, remove, visitor } from './api.js';
import { action, told } from './actions.js';
import { announce, badge, button, counted, date, fill, h, heading, number } from './dom.js';

/** Items of one answer. */
const PAGE = 1000;
const KINDS = { configured: 'in the configuration file', document: 'known by its document', registered: 'registered itself' };

/** Whether the gateway has an authorization server, and the visitor can have grants. */
export async function isThere() {
  if (visitor.principal === 'anonymous' && !may('superuser')) return false;
  try {
    await get('/grants?limit=1');
    return true;
  } catch (error) {
    return error.status !== 404;
  }
}

/** The items of a list, from `cursor` on: those of one answer, and the cursor of the next. */
async function page(list, cursor) {
  const answer = await get(`/${list}?${new URLSearchParams({ limit: PAGE, ...(cursor && { cursor }) })}`);
  return [answer[list], answer.next_cursor ?? null];
}

const people = (count) => `${number(count)} ${count === 1 ? 'person' : 'people'}`;
const nameOf = (client) => client.client_name ?? client.client;

/** Where the answer of a login was sent, for people. */
function receiver(uri) {
  try {
    const url = new URL(uri);
    if (url.protocol === 'https:') return url.host;
    return url.protocol === 'http:' ? 'a program on the machine of the person' : `the program of ${url.protocol}`;
  } catch { return uri; }
}

/** Who says that the client is the one whose name it has. */
function voucher(client) {
  if (client.client_kind === 'configured') return badge('from the configuration file', 'good');
  if (client.is_trusted) return badge(`${client.client_host}, trusted`, 'good');
  return client.client_host ? badge(client.client_host, 'off') : badge('nobody vouches for the name', 'warn');
}

function name(client) {
  return h('div', { class: 'name' }, h('strong', {}, nameOf(client)), client.client_name && h('span', { class: 'quiet small', title: client.client }, client.client));
}

function row(grant, load) {
  const isOwn = grant.principal === visitor.principal;
  const whose = isOwn ? 'you' : grant.principal;
  const end = action('Revoke', {
    title: `Revoke the access of ${nameOf(grant)}?`, verb: 'Revoke', danger: true, done: `${nameOf(grant)} has no access for ${whose} any more`,
    text: `Its tokens are refused at once, and its sessions, streams and calls for ${whose} end. It can ask ${whose} again.`,
  }, async () => { await remove(`/grants/${encodeURIComponent(grant.id)}`); load(); }, { class: 'small', 'aria-label': `Revoke ${nameOf(grant)} of ${grant.principal}` });
  const view = grant.view && [h('span', { class: 'quiet' }, ' for '), may('superuser') ? h('a', { href: `#/views/${encodeURIComponent(grant.view)}` }, grant.view) : grant.view];
  return h('li', { class: 'server' }, name(grant),
    h('div', { class: 'states' }, voucher(grant)),
    h('div', { class: 'cell' }, h('span', {}, h('span', { title: grant.scopes.join(' ') }, grant.role), view, h('span', { class: 'quiet small' }, ` at ${grant.resource}`))),
    h('div', { class: 'cell' }, h('span', {}, `used ${date(grant.used_at)}`, h('span', { class: 'quiet small' }, ` allowed ${date(grant.granted_at)}, answer sent to ${receiver(grant.redirect_uri)}`))),
    h('div', { class: 'cell end' }, end));
}

function person(principal, grants, load) {
  const all = grants.length > 1 && action('Revoke all', {
    title: `Revoke all that ${principal} granted?`, verb: 'Revoke all', danger: true, done: `no client has access for ${principal} any more`,
    text: `Every client loses its access for ${principal}, also those that are not shown here. They can ask again.`,
  }, async () => { await remove(`/grants?${new URLSearchParams({ principal })}`); load(); }, { class: 'small', 'aria-label': `Revoke all of ${principal}` });
  return h('section', { 'aria-label': principal }, h('div', { class: 'heading list-heading' }, h('h2', {}, grants[0].principal_name ?? principal, grants[0].principal_name && h('span', { class: 'quiet small' }, ` ${principal}`), principal === visitor.principal && h('span', { class: 'quiet' }, ' (you)'),
    h('span', { class: 'quiet small' }, ` ${counted(grants.length, 'client')}`)), h('div', { class: 'actions' }, all)),
  h('ul', { class: 'servers' }, grants.map((grant) => row(grant, load))));
}

function clientRow(client, load) {
  const end = action('Remove', {
    title: `Remove ${nameOf(client)}?`, verb: 'Remove', danger: true, done: `${nameOf(client)} is removed`,
    text: client.client_kind === 'configured' ? 'All its grants end. It stays in the configuration file, so it can ask people again.'
      : `All its grants end: ${counted(client.grant_count, 'grant')} of ${people(client.principal_count)}. ${client.client_kind === 'registered' ? 'Its registration is removed, so it has to register again.' : 'It can ask people again.'}`,
  }, async () => { await remove(`/clients?${new URLSearchParams({ client: client.client })}`); load(); }, { class: 'small', 'aria-label': `Remove ${nameOf(client)}` });
  const registered = client.registered_at && ` on ${date(client.registered_at)}`;
  return h('li', { class: 'server' }, name(client),
    h('div', { class: 'states' }, voucher(client)),
    h('div', { class: 'cell' }, h('span', {}, `${counted(client.grant_count, 'grant')} of ${people(client.principal_count)}`)),
    h('div', { class: 'cell' }, h('span', {}, client.used_at ? `used ${date(client.used_at)}` : 'not used', h('span', { class: 'quiet small' }, ` ${KINDS[client.client_kind] ?? client.client_kind}`, registered))),
    h('div', { class: 'cell end' }, (client.client_kind === 'registered' || client.grant_count > 0) && end));
}

/** Groups grants by their people. */
function byPerson(grants) {
  const groups = new Map();
  for (const grant of grants) groups.set(grant.principal, [...(groups.get(grant.principal) ?? []), grant]);
  for (const group of groups.values()) group.sort((a, b) => b.used_at.localeCompare(a.used_at));
  return [...groups].sort(([a], [b]) => (b === visitor.principal) - (a === visitor.principal) || a.localeCompare(b));
}

/** One list with its button for the next page. */
function listing(list, draw, isOver) {
  const [box, more] = [h('div', {}, h('p', { class: 'quiet' }, 'Loading…')), button('More', () => load(true), { hidden: true })];
  const shown = { items: [], cursor: null, isLoaded: false, box, part: h('div', {}, box, h('div', { class: 'row-of-buttons' }, more)) };
  let loads = 0;
  const load = async (isMore) => {
    loads += 1;
    const own = loads;
    const isStale = () => isOver() || own !== loads;
    more.disabled = true;
    try {
      const [items, cursor] = await page(list, isMore ? shown.cursor : null);
      if (isStale()) return;
      Object.assign(shown, { items: isMore ? [...shown.items, ...items] : items, cursor, isLoaded: true });
      more.hidden = cursor === null;
      more.disabled = false;
      draw(shown);
    } catch (error) {
      if (isStale()) return;
      Object.assign(shown, { isLoaded: false });
      more.hidden = true;
      fill(box, h('p', { class: error.status === 404 ? 'empty' : 'problem' }, told(error)));
    }
  };
  return Object.assign(shown, { load: () => load(false), redraw: () => { if (shown.isLoaded) draw(shown); } });
}

/** Shows the view. */
export function show(main) {
  const isOperator = may('superuser');
  const filter = isOperator && h('input', { type: 'search', placeholder: 'Filter', 'aria-label': 'Filter people and clients', class: 'filter', 'data-filter': true });
  const matches = (texts) => !filter || filter.value.toLowerCase().split(/\s+/).every((word) => texts.some((text) => text?.toLowerCase().includes(word)));
  let isOver = false;
  const load = () => { grants.load(); clients?.load(); };
  const none = (shown, text) => h('p', { class: 'empty' }, shown.items.length === 0 ? text : shown.cursor ? 'None of those that are loaded. Load more.' : 'None is like that.');
  const drawGrants = (shown) => {
    const found = shown.items.filter((one) => matches([one.principal, one.principal_name, one.client_name, one.client, one.view]));
    const empty = isOperator ? 'No person has granted anything to a client. When a client such as claude.ai connects, a page of this gateway asks the person. The answer is shown here.'
      : 'You have granted nothing to a client. When a client such as claude.ai connects, a page of this gateway asks you. Your answer is shown here.';
    fill(shown.box, found.length > 0 ? byPerson(found).map(([principal, of]) => person(principal, of, load)) : none(shown, empty));
    announce(`${counted(found.length, 'grant')} shown`);
  };
  const drawClients = (shown) => {
    const found = shown.items.filter((one) => matches([one.client_name, one.client]));
    fill(shown.box, found.length > 0 ? h('ul', { class: 'servers', 'aria-label': 'Clients' }, found.map((one) => clientRow(one, load))) : none(shown, 'No client is in the configuration file, none has registered, and none has a grant.'));
  };
  const grants = listing('grants', drawGrants, () => isOver);
  const clients = isOperator ? listing('clients', drawClients, () => isOver) : null;
  if (filter) filter.addEventListener('input', () => { grants.redraw(); clients.redraw(); });
  const about = isOperator ? 'The clients that people gave access, and what each may do.' : 'The clients that you gave access, and what each may do.';
  fill(main, heading('People and clients', about, filter, button('Refresh', load)),
    h('div', { class: 'people' }, grants.part, clients && h('section', { 'aria-labelledby': 'clients' }, h('div', { class: 'heading list-heading' }, h('h2', { id: 'clients' }, 'Clients')), clients.part)));
  load();
  return () => { isOver = true; };
}
