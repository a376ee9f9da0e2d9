// Attacks on the visitor of the dashboard.

import { createServer } from 'node:http';

import { must, open, signIn, visitor } from './lab.mjs';

// Changes come first: when the change is shown, the page has asked again, so the other views are of after the attack.
const VIEWS = ['changes', 'servers', 'servers/search', 'tools', 'calls', 'history', 'logins', 'keys', 'system', 'configuration'];

async function no_text_of_a_server_becomes_markup({ chrome, gateway, scene, problems }) {
  const page = await visitor(chrome, gateway, problems);
  await signIn(page, gateway, 'superuser');
  const clean = async (where) => {
    must(await page.evaluate(() => window.pwned) === undefined, `a script ran: ${where}`);
    const found = await page.evaluate(() => document.querySelectorAll('main img, main script, [onerror], [onload], [href^="javascript:"], [href^="data:"], iframe').length);
    must(found === 0, `foreign markup: ${where}`);
  };
  await open(page, gateway, 'servers/search');
  for (const name of ['evil', 'evil_error']) {
    await page.locator('details.tool > summary', { has: page.getByText(name, { exact: true }) }).click();
    const tool = page.locator(`details.tool[data-tool="${name}"]`);
    await tool.getByRole('button', { name: 'Call', exact: true }).waitFor();
    const choice = tool.locator('select');
    if (await choice.count() > 0) await choice.first().selectOption({ index: 1 });
    await tool.getByRole('button', { name: 'Call', exact: true }).click();
    await tool.locator('.result').waitFor();
    await tool.locator('details > summary').last().click();
    must((await tool.textContent()).includes('<script>window.pwned=1</script>'), 'the text is shown as text');
    must(!(await tool.textContent()).includes('\u202e'), 'no character turns the text around');
  }
  await clean('a tool');
  scene.changeSearch();
  scene.billing.isFailing = true;
  await gateway.rest('superuser', 'POST', '/call', { server: 'billing', tool: 'ping' });
  scene.billing.isFailing = false;
  await gateway.rest('superuser', 'POST', '/servers/search/reconnect');
  for (const view of VIEWS) {
    await open(page, gateway, view);
    await page.waitForTimeout(250);
    await clean(view);
    if (view === 'changes') {
      // The page asks the gateway every two seconds, so it shows the change when it has asked again.
      const change = page.locator('article', { hasText: 'evil' });
      await change.waitFor();
      const rows = await change.locator('.row').allTextContents();
      const forged = rows.filter((row) => row.includes('readOnlyHint'));
      must(forged.length > 0 && forged.every((row) => row.includes('│ ')), 'a line of a text is marked as one');
    }
  }
  for (const hash of ['#/<img src=x onerror=window.pwned=1>', '#/servers/%3Cimg%20src=x%20onerror=window.pwned=1%3E', '#/servers/%']) {
    await page.goto(`${gateway.base}/ui/${hash}`);
    await page.waitForTimeout(150);
    await clean(hash);
  }
  await page.context().close();
}

async function page_of_another_origin_changes_nothing({ chrome, gateway, problems }) {
  const evil = createServer((_, response) => { response.writeHead(200, { 'content-type': 'text/html' }); response.end('<h1>evil</h1>'); });
  await new Promise((resolve) => { evil.listen(0, '127.0.0.1', resolve); });
  const page = await visitor(chrome, gateway, []);
  try {
    await signIn(page, gateway, 'superuser');
    await page.goto(`http://127.0.0.1:${evil.address().port}/`);
    const paths = ['/reload', '/circuit-breakers/issues/reset', '/servers/issues/reconnect', '/servers/issues/disable', '/servers/issues/enable', '/servers/files/tools/approve', '/servers/issues/login', '/call'];
    const results = await page.evaluate(async ({ base, paths: all }) => {
      const sent = [];
      for (const path of all) {
        for (const headers of [{}, { 'content-type': 'text/plain' }, { 'content-type': 'application/json', 'x-switchyard-csrf': 'guessed' }]) {
          try {
            const response = await fetch(`${base}/api/v1/mcp${path}`, { method: 'POST', credentials: 'include', headers, body: '{"server": "issues", "tool": "create_issue", "arguments": {"title": "csrf"}}' });
            sent.push([path, response.status]);
          } catch { sent.push([path, 'blocked']); }
        }
      }
      for (const [method, path, body] of [['PUT', '/servers/evil', '{"url": "https://evil.example/mcp"}'], ['PATCH', '/servers/issues', '{"enabled": false}'], ['DELETE', '/servers/issues', undefined],
        ['PUT', '/keys/evil', '{"role": "superuser"}'], ['DELETE', '/keys/ops', undefined]]) {
        for (const headers of [{}, { 'content-type': 'text/plain' }, { 'content-type': 'application/json', 'x-switchyard-csrf': 'guessed' }]) {
          try {
            sent.push([`${method} ${path}`, (await fetch(`${base}/api/v1/mcp${path}`, { method, credentials: 'include', headers, body })).status]);
          } catch { sent.push([path, 'blocked']); }
        }
      }
      const read = await fetch(`${base}/ui/session`, { credentials: 'include' }).then((response) => response.text(), () => 'blocked');
      return { sent, read };
    }, { base: gateway.base, paths });
    const through = results.sent.filter(([, status]) => !['blocked', 401, 403].includes(status));
    must(through.length === 0, `came through: ${JSON.stringify(through)}`);
    must(!results.read.includes('"csrf":"'), `the token was told: ${results.read}`);
    await page.setContent(`<iframe src="${gateway.base}/ui/"></iframe>`);
    await page.waitForTimeout(500);
    const frame = page.frames().find((one) => one !== page.mainFrame());
    const text = await frame.evaluate(() => document.body?.textContent ?? '').catch(() => '');
    must(!text.includes('Servers'), 'the page opens in no frame');
  } finally {
    await page.context().close();
    evil.close();
  }
  return problems.length === 0 ? undefined : 'problems';
}

async function session_of_a_reader_changes_nothing({ chrome, gateway, problems }) {
  const page = await visitor(chrome, gateway, problems);
  await signIn(page, gateway, 'reader');
  const results = await page.evaluate(async () => {
    const { csrf } = await (await fetch('session')).json();
    const post = async (path, method = 'POST') => (await fetch(`../api/v1/mcp${path}`, {
      method, headers: { 'x-switchyard-csrf': csrf, 'content-type': 'application/json' }, body: '{"server": "issues", "tool": "create_issue", "arguments": {"title": "x"}}',
    })).status;
    const paths = ['/reload', '/circuit-breakers/issues/reset', '/servers/issues/reconnect', '/servers/issues/disable', '/servers/issues/enable', '/servers/files/tools/approve', '/servers/issues/login', '/call'];
    const sent = [];
    for (const path of paths) sent.push([path, await post(path)]);
    sent.push(['DELETE login', await post('/servers/issues/login', 'DELETE')]);
    const changing = async (method, path, body) => sent.push([`${method} ${path}`, (await fetch(`../api/v1/mcp${path}`, { method, headers: { 'x-switchyard-csrf': csrf, 'content-type': 'application/json' }, body })).status]);
    for (const method of ['PUT', 'PATCH', 'DELETE']) await changing(method, '/servers/issues?dry_run=true', method === 'DELETE' ? undefined : '{"url": "https://evil.example/mcp"}');
    await changing('PUT', '/keys/evil', '{"role": "superuser"}');
    await changing('DELETE', '/keys/reader');
    for (const path of ['/keys', '/servers/issues/stderr']) sent.push([path, (await fetch(`../api/v1/mcp${path}`)).status]);
    sent.push(['configuration', (await fetch('../api/v1/mcp/configuration')).status]);
    return sent;
  });
  const through = results.filter(([, status]) => status !== 403);
  must(through.length === 0, `came through: ${JSON.stringify(through)}`);
  for (const view of VIEWS) {
    await open(page, gateway, view);
    await page.waitForTimeout(150);
    const buttons = await page.locator('main button').allTextContents();
    const actions = buttons.filter((text) => /Reload|Reset|Reconnect|Disable|Enable|Approve|Log in|Add|Edit|Remove|Make|Revoke|^Call$/.test(text));
    must(actions.length === 0, `a reader sees ${actions} in ${view}`);
  }
  await page.context().close();
}

export const CHECKS = { no_text_of_a_server_becomes_markup, page_of_another_origin_changes_nothing, session_of_a_reader_changes_nothing };
