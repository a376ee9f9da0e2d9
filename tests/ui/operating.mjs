// What an operator changes from the dashboard: servers of the configuration file and keys. And what an idle tab costs.

import { mkdtempSync, readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { confirm, eventually, Gateway, looksRight, must, open, SCREENS, signIn, visitor } from './lab.mjs';
import { mcpServer } from './server.mjs';

/** The most bytes of an idle tab in a minute. */
const MOST_IDLE = 20_000;

/** Does `check` at both sizes and in both themes. */
async function everywhere({ chrome, gateway, problems }, role, check) {
  for (const screen of SCREENS) {
    const page = await visitor(chrome, gateway, problems, screen);
    await signIn(page, gateway, role);
    const { viewport: { width }, colorScheme } = screen;
    const looks = (where) => looksRight(page, `${where}-${width}-${colorScheme}`);
    await check(page, looks);
    await page.context().close();
  }
}

async function server_is_added_changed_and_removed({ chrome, gateway, scene, problems }) {
  gateway.write(scene.yaml());
  await gateway.rest('superuser', 'POST', '/reload');
  const file = () => readFileSync(gateway.file, 'utf8');
  await everywhere({ chrome, gateway, problems }, 'superuser', async (page, looks) => {
    const before = file();
    await page.getByRole('button', { name: 'Add server' }).click();
    const box = page.getByRole('dialog');
    await box.getByLabel('Name').fill('added');
    await box.getByLabel('URL', { exact: true }).fill(scene.issues.url);
    await box.getByLabel('Headers').fill('X-Team: ${HOME}');
    must(await box.getByRole('button', { name: 'Write and reload' }).isDisabled(), 'nothing is written unseen');
    await box.getByRole('button', { name: 'Check' }).click();
    await box.getByText(/writes no reference/).waitFor();
    await box.getByLabel('Headers').fill('X-Team: canary-of-a-client');
    await box.getByRole('button', { name: 'Check' }).click();
    const shown = box.getByRole('region', { name: 'Change of added' });
    await shown.waitFor();
    const text = await shown.textContent();
    must(text.includes(scene.issues.url) && !text.includes('canary'), `the change is shown without secrets: ${text}`);
    must(file() === before, 'a check writes nothing');
    await looks('add a server');
    await box.getByRole('button', { name: 'Write and reload' }).click();
    await box.waitFor({ state: 'detached' });
    must(file().startsWith(before) && file().includes('canary-of-a-client'), 'the entry is in the file');
    await page.getByRole('link', { name: 'added', exact: true }).click();
    await page.getByRole('button', { name: 'Edit', exact: true }).click();
    await box.getByLabel('Description').fill('Added <b>here</b>');
    await box.getByRole('button', { name: 'Check' }).click();
    await box.getByRole('region', { name: 'Change of added' }).waitFor();
    await looks('edit a server');
    await box.getByRole('button', { name: 'Write and reload' }).click();
    await box.waitFor({ state: 'detached' });
    await page.getByText('Added <b>here</b>').waitFor();
    await page.getByRole('button', { name: 'Remove', exact: true }).click();
    await box.getByRole('region', { name: 'Change of added' }).waitFor();
    await looks('remove a server');
    await box.getByRole('button', { name: 'Remove and reload' }).click();
    await box.waitFor({ state: 'detached' });
    must(file() === before, 'the file is as before');
    await open(page, gateway, 'servers');
    await page.getByRole('button', { name: 'Add server' }).click();
    await box.getByLabel('The server is').selectOption('program');
    await box.getByLabel('Name').fill('memory');
    await box.getByLabel('Command').fill('npx -y @modelcontextprotocol/server-memory');
    const entry = await box.getByRole('region', { name: 'Entry to paste' }).textContent();
    must(entry === '  memory:\n    command: npx\n    args: ["-y", "@modelcontextprotocol/server-memory"]\n', entry);
    await looks('add a program');
    await box.locator('.dialog-foot').getByRole('button', { name: 'Close' }).click();
    must(file() === before, 'a program is pasted by its operator');
  });
  await everywhere({ chrome, gateway, problems }, 'caller', async (page) => {
    await page.locator('li.server').first().waitFor();
    must(await page.getByRole('button', { name: /Add server|Edit|Remove/ }).count() === 0, 'a caller changes no file');
  });
}

async function key_is_made_shown_once_and_revoked({ chrome, gateway, problems }) {
  await everywhere({ chrome, gateway, problems }, 'superuser', async (page, looks) => {
    await open(page, gateway, 'keys');
    await page.getByRole('button', { name: 'Make a key' }).click();
    const box = page.getByRole('dialog');
    await box.getByLabel('Name').fill('Not A Name');
    await box.getByRole('button', { name: 'Make the key' }).click();
    await box.getByText(/lower-case letters/).last().waitFor();
    await box.getByLabel('Name').fill('phone');
    await box.getByLabel('Role').selectOption('reader');
    await looks('make a key');
    await box.getByRole('button', { name: 'Make the key' }).click();
    const shown = page.getByRole('region', { name: 'The key' });
    await shown.waitFor();
    const key = await shown.textContent();
    must(key.startsWith('swy_phone_'), key);
    await looks('the key');
    const isGone = await page.getByRole('button', { name: 'Done' }).evaluate((done, shown) => { done.click(); return !document.documentElement.innerHTML.includes(shown); }, key);
    must(isGone, 'the key is in the page after "Done"');
    await shown.waitFor({ state: 'detached' });
    const asked = (path) => fetch(`${gateway.base}/api/v1/mcp${path}`, { headers: { 'x-api-key': key } });
    must((await asked('/servers')).status === 200, 'the key is accepted');
    const row = page.locator('tr', { hasText: 'phone' });
    await row.getByText('reader').waitFor();
    must(!(await page.content()).includes(key), 'the key is shown once');
    await looks('keys');
    await row.getByRole('button', { name: 'Revoke phone' }).click();
    await confirm(page, 'Revoke');
    await row.waitFor({ state: 'detached' });
    must((await asked('/servers')).status === 401, 'the key is refused');
  });
  await everywhere({ chrome, gateway, problems }, 'caller', async (page) => {
    await open(page, gateway, 'keys');
    await page.getByText('Your role may not see keys.').waitFor();
  });
}

async function secret_is_set_changed_and_removed({ chrome, gateway, scene, problems }) {
  gateway.write(`${scene.yaml()}  own:\n    url: ${scene.issues.url}\n    headers: {X-Team-Key: "\${principal:TEAM_KEY}"}\n`);
  await gateway.rest('superuser', 'POST', '/reload');
  try {
    await everywhere({ chrome, gateway, problems }, 'caller', async (page, looks) => {
      await open(page, gateway, 'logins');
      const row = page.getByRole('region', { name: 'Secrets' }).locator('tr', { hasText: 'TEAM_KEY' });
      await row.getByText('not set').waitFor();
      await row.getByText('own', { exact: true }).waitFor({ state: 'attached' });
      await row.getByRole('button', { name: 'Set TEAM_KEY' }).click();
      const box = page.getByRole('dialog');
      const value = box.getByLabel('Value');
      must(await value.getAttribute('type') === 'password', 'the value is not shown');
      await value.fill('canary-ä');
      await box.getByRole('button', { name: 'Set the secret' }).click();
      await box.getByText(/one line of ASCII/).waitFor();
      await looks('set a secret');
      await value.fill('canary-of-a-caller');
      await box.getByRole('button', { name: 'Set the secret' }).click();
      await box.waitFor({ state: 'detached' });
      await row.getByRole('button', { name: 'Change TEAM_KEY' }).waitFor();
      must(!(await page.content()).includes('canary'), 'a value is never shown again');
      await looks('secrets');
      await row.getByRole('button', { name: 'Remove TEAM_KEY' }).click();
      await confirm(page, 'Remove');
      await row.getByText('not set').waitFor();
    });
    const page = await visitor(chrome, gateway, problems);
    await signIn(page, gateway, 'reader');
    await open(page, gateway, 'logins');
    await page.getByText('Your role may not log in to servers.').waitFor();
    must(await page.getByText('TEAM_KEY').count() === 0, 'a reader has no secrets');
    await page.context().close();
  } finally {
    gateway.write(scene.yaml());
    await gateway.rest('superuser', 'POST', '/reload');
  }
}

async function standard_error_of_a_program_is_shown({ chrome, gateway, scene, problems }) {
  gateway.write(`${scene.yaml()}  program:\n    command: sh\n    args: [-c, "echo 'cannot open <b>db</b>' >&2; exit 3"]\n`);
  await gateway.rest('superuser', 'POST', '/reload');
  try {
    await everywhere({ chrome, gateway, problems }, 'superuser', async (page, looks) => {
      await open(page, gateway, 'servers/program');
      await page.getByText('Standard error', { exact: true }).click();
      await page.getByRole('region', { name: 'Standard error of program' }).getByText('cannot open <b>db</b>').waitFor();
      await looks('standard error');
    });
    const page = await visitor(chrome, gateway, problems);
    await signIn(page, gateway, 'caller');
    await open(page, gateway, 'servers/program');
    await page.locator('.facts').waitFor();
    must(await page.getByText('Standard error', { exact: true }).count() === 0, 'a caller does not see it');
    await page.context().close();
  } finally {
    gateway.write(scene.yaml());
    await gateway.rest('superuser', 'POST', '/reload');
  }
}

/** 45 servers with 615 tools. */
async function crowd() {
  const tools = (count) => Object.fromEntries(Array.from({ length: count }, (_, at) => [`tool_${at}`, {
    definition: { description: `Does the work number ${at}, as its name says.`, inputSchema: { type: 'object', properties: { query: { type: 'string' } } } },
    call: async () => ({ content: [{ type: 'text', text: 'done' }] }),
  }]));
  const kinds = [await mcpServer(tools(14)), await mcpServer(tools(13))];
  const entry = (at) => `  server-${at}: {url: "${kinds[at < 30 ? 0 : 1].url}"}\n`;
  return { kinds, yaml: Array.from({ length: 45 }, (_, at) => entry(at)).join('') };
}

async function idle_tab_costs_little({ chrome, binary, problems }) {
  const { kinds, yaml } = await crowd();
  const folder = mkdtempSync(join(tmpdir(), 'ui-idle-'));
  const gateway = await Gateway.start({ binary, folder, views: 'views:\n  all: {servers: ["*"]}\n' }, yaml);
  try {
    await eventually('all tools are there', async () => (await (await gateway.rest('reader', 'GET', '/tools')).json()).tools.length === 615, 60000);
    const views = ['servers', 'servers/server-1', 'tools', 'views', 'views/all', 'history', 'logins', 'system'];
    const cost = async (view) => {
      const page = await visitor(chrome, gateway, problems);
      await signIn(page, gateway, 'superuser');
      await open(page, gateway, view);
      await page.waitForTimeout(10000);
      const devtools = await page.context().newCDPSession(page);
      await devtools.send('Network.enable');
      const sum = { view, requests: 0, bytes: 0 };
      // An answer without a body is not told of as loaded; its headers are all of it.
      devtools.on('Network.responseReceivedExtraInfo', ({ statusCode, headersText }) => {
        sum.requests += 1;
        if (statusCode === 304) sum.bytes += headersText.length;
      });
      devtools.on('Network.loadingFinished', ({ encodedDataLength }) => { sum.bytes += encodedDataLength; });
      await page.waitForTimeout(60000);
      await page.context().close();
      return sum;
    };
    const all = await Promise.all(views.map(cost));
    const told = all.map(({ view, requests, bytes }) => `${view} ${requests} requests, ${bytes} bytes`).join('; ');
    must(all.every(({ requests, bytes }) => requests > 0 && bytes <= MOST_IDLE), `a minute of an idle tab: ${told}`);
    // It wakes up when something happens.
    const page = await visitor(chrome, gateway, problems);
    await signIn(page, gateway, 'superuser');
    await page.waitForTimeout(8000);
    await gateway.rest('superuser', 'POST', '/servers/server-1/disable');
    await page.locator('li.server', { has: page.getByRole('link', { name: 'server-1', exact: true }) }).getByText('disabled').first().waitFor({ timeout: 12000 });
    const asked = [];
    page.on('request', (request) => asked.push(request.url()));
    await open(page, gateway, 'logins');
    await page.getByText('No server needs a login.').waitFor();
    must(asked.filter((url) => url.includes('login')).length === 1, `one request for all logins: ${asked.join(' ')}`);
    await page.context().close();
    return told;
  } finally {
    gateway.close();
    kinds.forEach((server) => server.close());
  }
}

export const CHECKS = { server_is_added_changed_and_removed, key_is_made_shown_once_and_revoked, secret_is_set_changed_and_removed, standard_error_of_a_program_is_shown };
export const IDLE = { idle_tab_costs_little };
