// People and clients as the page shows them: which person granted what to which client, and the end of it. The answers of the REST API are made
// here, because a grant needs a browser at the consent page. tests/it has the routes with real grants.

import { onEveryScreen } from './features.mjs';
import { confirm, eventually, must, open } from './lab.mjs';
import { EVIL } from './world.mjs';

const CLAUDE = 'https://claude.ai/oauth/mcp-client.json';
const id = (at) => `${String(at).padStart(20, '0')}-${String(at).padStart(32, '0')}`;
const grant = (at, principal, more) => ({
  id: id(at), principal, client: CLAUDE, client_name: 'Claude', client_kind: 'document', client_host: 'claude.ai', is_trusted: true, redirect_uri: 'https://claude.ai/api/mcp/auth_callback',
  resource: 'https://gateway.example.org/mcp', role: 'caller', scopes: ['mcp:read', 'mcp:call'], granted_at: '2026-11-01T10:00:00.000Z', used_at: `2026-11-2${at}T10:00:00.000Z`, ...more,
});
const unknown = { client: `swyclient-${'0'.repeat(32)}`, client_name: EVIL, client_kind: 'registered', client_host: undefined, is_trusted: false, redirect_uri: 'http://127.0.0.1:33418/callback' };

/** Answers the routes of grants and clients with `grants`, as the gateway does. Returns the requests that end something. */
async function answered(page, gateway, grants) {
  const ended = [];
  await page.route((url) => /\/api\/v1\/mcp\/(grants|clients)/.test(url.pathname), async (route) => {
    const request = route.request();
    const url = new URL(request.url());
    const [list, one] = url.pathname.split('/').slice(4);
    const keep = (kept) => { const count = grants.length; grants.splice(0, count, ...grants.filter(kept)); return count - grants.length; };
    if (request.method() === 'DELETE') {
      must(request.headers()['x-switchyard-csrf'], 'the request repeats the token of the session');
      ended.push(`${list} ${one ?? url.search}`);
      const [principal, client] = ['principal', 'client'].map((name) => url.searchParams.get(name));
      const count = keep((found) => (one ? found.id !== one : principal ? found.principal !== principal : found.client !== client));
      return route.fulfill({ json: one ? grant(1, 'key:x', { id: one }) : { principal, client, grant_count: count } });
    }
    if (list === 'grants') return route.fulfill({ json: { grants } });
    const clients = [...new Set(grants.map(({ client }) => client))].map((client) => grants.filter((found) => found.client === client));
    return route.fulfill({ json: { clients: clients.map((of) => ({ ...of[0], grant_count: of.length, principal_count: new Set(of.map(({ principal }) => principal)).size })) } });
  });
  await page.reload();
  return ended;
}

const section = (page, name) => page.getByRole('region', { name, exact: true });

async function operator_sees_all_people_and_ends_what_they_granted(page, { gateway }) {
  const ended = await answered(page, gateway, [grant(1, 'key:ann'), grant(2, 'key:ann', { ...unknown, view: 'support', role: 'reader' }), grant(3, 'key:bob')]);
  if (page.viewportSize().width < 600) await page.getByRole('button', { name: 'Menu' }).click();
  await page.getByRole('navigation').getByRole('link', { name: 'People and clients' }).click();
  await section(page, 'key:ann').waitFor();
  const ofAnn = await section(page, 'key:ann').locator('li').allTextContents();
  must(ofAnn.length === 2 && ofAnn[0].includes('nobody vouches for the name') && ofAnn[0].includes('a program on the machine'), `the unknown client: ${ofAnn}`);
  must(ofAnn[1].includes('claude.ai, trusted') && ofAnn[1].includes('https://gateway.example.org/mcp'), `Claude: ${ofAnn[1]}`);
  must(await page.evaluate(() => window.pwned) === undefined, 'the name of a client is text');
  const clients = page.getByRole('list', { name: 'Clients' }).locator('li');
  must(await clients.count() === 2 && (await clients.first().textContent()).includes('2 grants of 2 people'), await clients.first().textContent());
  await page.getByRole('button', { name: 'Revoke Claude of key:bob' }).click();
  await confirm(page, 'Revoke');
  await section(page, 'key:bob').waitFor({ state: 'detached' });
  await page.getByRole('searchbox').fill('no such');
  await page.getByText('None is like that.').first().waitFor();
  await page.getByRole('searchbox').fill('ann support');
  await eventually('one grant', async () => await section(page, 'key:ann').locator('li').count() === 1);
  await page.getByRole('searchbox').fill('');
  await page.getByRole('button', { name: 'Remove Claude' }).click();
  await confirm(page, 'Remove');
  await eventually('one client', async () => await clients.count() === 1);
  await page.getByRole('button', { name: /^Revoke .*key:ann$/ }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Cancel' }).click();
  must(ended.join() === `grants ${id(3)},clients ?client=${encodeURIComponent(CLAUDE)}`, `what ended: ${ended}`);
}

async function slow_list_is_not_called_empty_and_its_next_page_comes_once(page, { gateway }) {
  let asked = 0;
  const slow = (list) => async (route) => {
    const isMore = new URL(route.request().url()).searchParams.has('cursor');
    asked += isMore ? 1 : 0;
    await new Promise((resolve) => setTimeout(resolve, 500));
    const json = list === 'clients' ? { clients: [] } : { grants: [grant(isMore ? 2 : 1, 'key:ann')], ...(!isMore && { next_cursor: id(1) }) };
    await route.fulfill({ json });
  };
  for (const list of ['grants', 'clients']) await page.route((url) => url.pathname.endsWith(`/api/v1/mcp/${list}`), slow(list));
  await open(page, gateway, 'people');
  await page.getByRole('searchbox').fill('ann');
  must(await page.locator('.people .empty').count() === 0, 'a list that is not there yet is not empty');
  await section(page, 'key:ann').waitFor();
  await page.getByRole('button', { name: 'More' }).first().dblclick();
  await eventually('two grants', async () => await section(page, 'key:ann').locator('li').count() === 2);
  must(asked === 1, `the next page was asked for ${asked} times`);
}

async function caller_sees_and_ends_own_grants(page, { gateway }) {
  const ended = await answered(page, gateway, [grant(1, 'key:caller'), grant(2, 'key:caller', { is_trusted: false })]);
  await open(page, gateway, 'people');
  await section(page, 'key:caller').waitFor();
  must(await page.getByRole('heading', { name: 'Clients', exact: true }).count() === 0, 'the clients of others are not shown');
  await page.getByRole('button', { name: 'Revoke all of key:caller' }).click();
  await confirm(page, 'Revoke all');
  await page.getByText('You have granted nothing to a client.').waitFor();
  must(ended.join() === 'grants ?principal=key%3Acaller', `what ended: ${ended}`);
}

async function gateway_without_an_authorization_server_has_no_page_of_people(page, { gateway }) {
  await page.waitForTimeout(500);
  must(await page.getByRole('navigation').getByRole('link', { name: 'People and clients', includeHidden: true }).count() === 0, 'the menu has no such page');
  await open(page, gateway, 'people');
  await page.getByText('this gateway has no authorization server').first().waitFor();
}

const FEATURES = [
  ['gateway', 'superuser', operator_sees_all_people_and_ends_what_they_granted], ['gateway', 'caller', caller_sees_and_ends_own_grants],
  ['gateway', 'superuser', slow_list_is_not_called_empty_and_its_next_page_comes_once],
  ['gateway', 'superuser', gateway_without_an_authorization_server_has_no_page_of_people],
];

export const CHECKS = Object.fromEntries(FEATURES.map((feature) => [feature[2].name, onEveryScreen(feature)]));
