// What an operator does: sees a server fail, resets it, calls a tool, approves a change, signs out.

import { readFileSync } from 'node:fs';

import { confirm, eventually, must, open, signIn, visitor } from './lab.mjs';

async function failing_server_is_added_watched_and_reset({ chrome, gateway, scene, problems }) {
  const page = await visitor(chrome, gateway, problems);
  await signIn(page, gateway, 'superuser');
  gateway.write(scene.yaml(true));
  await page.getByRole('button', { name: 'Reload configuration' }).click();
  await confirm(page, 'Reload');
  const row = page.locator('li.server', { has: page.getByRole('link', { name: 'billing', exact: true }) });
  await row.getByText('ready').waitFor();
  scene.billing.isFailing = true;
  for (let call = 0; call < 3; call += 1) await gateway.rest('superuser', 'POST', '/call', { server: 'billing', tool: 'ping' });
  await row.getByText(/open, probe in/).waitFor();
  must(await row.locator('.why').count() === 1, 'the row says why');
  scene.billing.isFailing = false;
  await row.getByRole('link', { name: 'billing', exact: true }).click();
  await page.getByRole('button', { name: 'Reset breaker' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Cancel' }).click();
  const { breaker } = await (await gateway.rest('reader', 'GET', '/servers/billing')).json();
  must(breaker === 'open', 'nothing happens without a yes');
  await page.getByRole('button', { name: 'Reset breaker' }).click();
  await confirm(page, 'Reset breaker');
  await eventually('the breaker is closed', async () => (await (await gateway.rest('reader', 'GET', '/servers/billing')).json()).breaker === 'closed');
  await page.locator('.facts').getByText('closed').waitFor();
  await page.context().close();
}

async function tool_is_called_by_its_form({ chrome, gateway, scene, problems }) {
  const page = await visitor(chrome, gateway, problems);
  await signIn(page, gateway, 'caller');
  await open(page, gateway, 'servers/issues');
  await page.locator('details.tool > summary', { hasText: 'search_issues' }).click();
  const tool = page.locator('details.tool[open]');
  await tool.getByRole('button', { name: 'Call', exact: true }).click();
  await tool.getByText('query is required').waitFor();
  await tool.getByLabel(/^query/).fill('door <b>');
  await tool.getByLabel(/^state/).selectOption({ label: 'open' });
  await tool.getByLabel(/^exact/).selectOption({ label: 'true' });
  await tool.getByLabel(/^size/).fill('5');
  await tool.getByLabel(/^labels/).fill('["house", 1]');
  await tool.getByLabel(/^limit/).fill('ten');
  await tool.getByRole('button', { name: 'Call', exact: true }).click();
  await tool.getByText('limit must be a whole number').waitFor();
  await tool.getByLabel(/^limit/).fill('3');
  await tool.getByRole('button', { name: 'Call', exact: true }).click();
  await tool.getByText('answered').waitFor();
  const { given } = scene.issues.calls.findLast((call) => call.name === 'search_issues');
  const wanted = { query: 'door <b>', state: 'open', limit: 3, exact: true, labels: ['house', 1], page: { size: 5 } };
  const sorted = (value) => JSON.stringify(Object.entries(value).sort());
  must(sorted(given) === sorted(wanted), `the server got ${JSON.stringify(given)}`);
  await page.locator('details.tool > summary', { hasText: 'close_issue' }).click();
  const other = page.locator('details.tool[open]').last();
  await other.getByLabel(/^number/).fill('7');
  await other.getByRole('button', { name: 'Call', exact: true }).click();
  await page.getByText('issue 7 is locked').first().waitFor();
  must(await page.getByRole('button', { name: 'Disable' }).count() === 0, 'a caller sees no button of operators');
  await page.context().close();
}

async function tool_that_asks_gets_its_answer({ chrome, gateway, problems }) {
  const page = await visitor(chrome, gateway, problems);
  await signIn(page, gateway, 'caller');
  await open(page, gateway, 'servers/issues');
  await page.locator('details.tool > summary', { hasText: 'book' }).click();
  const tool = page.locator('details.tool[open]');
  await tool.getByRole('button', { name: 'Call', exact: true }).click();
  await tool.getByText('On which day?').waitFor();
  await tool.getByLabel(/^day/).selectOption({ label: 'friday' });
  await tool.getByRole('button', { name: 'Answer' }).click();
  await tool.getByText('booked: friday').first().waitFor();
  await page.context().close();
}

async function calls_are_shown_as_they_happen({ chrome, gateway, problems }) {
  const page = await visitor(chrome, gateway, problems);
  await signIn(page, gateway, 'superuser');
  await open(page, gateway, 'calls');
  await page.getByText('Listening').waitFor();
  await gateway.rest('caller', 'POST', '/call', { server: 'issues', tool: 'create_issue', arguments: { title: 'x' } });
  await page.getByRole('button', { name: 'create_issue' }).first().click();
  const box = page.getByRole('dialog');
  await box.getByText('Duration').first().waitFor();
  must((await box.textContent()).includes('key:caller'), 'the detail names the principal');
  await box.getByRole('button', { name: 'Close' }).click();
  await page.getByLabel('Filter by server, tool or principal').fill('nothing like it');
  await eventually('the filter hides it', async () => await page.getByRole('button', { name: 'create_issue' }).count() === 0);
  await page.context().close();
}

/** A page that gets these events, whatever the gateway has. It stays connected by asking again. */
async function events_as_specified_are_shown({ chrome, gateway, problems }) {
  const at = '2026-11-24T02:00:00.123Z';
  const call = { at, call: 'c-1', server: 'issues', tool: '<b>tool</b>', principal: 'key:ci', request_id: 'r-1', client: 'test' };
  const events = [['call_started', call], ['call_ended', { ...call, outcome: 'failed', code: 'timeout', duration_ms: 12.345,
    attempts: [{ attempt: 1, outcome: 'failed', duration_ms: 5, error: '<i>refused</i>' }, { attempt: 2, outcome: 'failed', duration_ms: 7.345, error: 'late' }] }],
  ['call_started', { ...call, call: 'c-2' }], ['breaker_changed', { at, server: 'issues', from: 'closed', to: 'open', reason: 'five failures' }],
  ['server_changed', { at, server: 'issues', state: 'failed', reason: 'gone' }], ['action', { at, principal: 'key:ops', action: 'reload', outcome: 'done' }], ['gap', { missed: 7 }]];
  const body = events.map(([event, data], id) => `id: ${id}\nevent: ${event}\ndata: ${JSON.stringify(data)}\n\n`).join('');
  const page = await visitor(chrome, gateway, problems);
  const asked = [];
  await page.route('**/api/v1/mcp/events', (route) => {
    asked.push(route.request().headers()['last-event-id']);
    return route.fulfill({ status: 200, contentType: 'text/event-stream', body: asked.length === 1 ? `: hello\n\n${body}` : ': nothing new\n\n' });
  });
  await signIn(page, gateway, 'superuser');
  await open(page, gateway, 'calls');
  await page.getByText('running').last().waitFor();
  await page.getByText('7 events were missed').waitFor();
  await page.getByText('closed → open').waitFor();
  await page.getByLabel('Filter by outcome').selectOption('failed');
  const rows = page.getByRole('region', { name: 'Calls', exact: true }).locator('tbody tr');
  await eventually('one call has this outcome', async () => await rows.count() === 1);
  await rows.getByRole('button', { name: '<b>tool</b>' }).click();
  const box = page.getByRole('dialog');
  const told = await box.textContent();
  must(['<i>refused</i>', 'late', 'timeout', 'key:ci', '7.3 ms'].every((text) => told.includes(text)), `the detail says it: ${told}`);
  await eventually('it resumes after the last event', async () => asked.length > 1 && asked[1] === '6');
  await page.context().close();
}

async function failed_call_of_before_is_found_and_exported({ chrome, gateway, problems }) {
  await gateway.rest('caller', 'POST', '/call', { server: 'issues', tool: 'close_issue', arguments: { number: 7 } });
  await gateway.rest('superuser', 'POST', '/call', { server: 'files', tool: 'read_file', arguments: { path: 'x' } });
  for (const [width, colorScheme] of [[1440, 'light'], [390, 'dark']]) {
    const page = await visitor(chrome, gateway, problems, { viewport: { width, height: 800 }, colorScheme });
    await signIn(page, gateway, 'superuser');
    await open(page, gateway, 'history');
    const rows = page.getByRole('region', { name: 'Calls', exact: true }).locator('tbody tr');
    await page.getByRole('button', { name: 'read_file' }).first().waitFor();
    await page.getByLabel('Outcome').selectOption('failures');
    await eventually('no call that worked is left', async () => await page.getByRole('button', { name: 'read_file' }).count() === 0);
    await page.getByRole('searchbox', { name: 'Tool' }).fill('close_issue');
    await eventually('only calls of the tool are left', async () => {
      const texts = await rows.allTextContents();
      return texts.length > 0 && texts.every((text) => text.includes('close_issue'));
    });
    await rows.getByRole('button', { name: 'close_issue' }).first().click();
    const box = page.getByRole('dialog');
    const told = await box.textContent();
    must(['issue 7 is locked', 'tool error', 'key:caller', 'REST'].every((text) => told.includes(text)), `the detail says why: ${told}`);
    await box.getByRole('button', { name: 'Close' }).click();
    for (const [word, wanted] of [['JSON', '"tool":"close_issue"'], ['CSV', ',issues,close_issue,tool_error,']]) {
      const download = page.waitForEvent('download');
      await page.getByRole('button', { name: `Export ${word}` }).click();
      const text = readFileSync(await (await download).path(), 'utf8');
      must(text.includes(wanted) && text.includes('issue 7 is locked'), `${word} has the call: ${text}`);
    }
    await page.context().close();
  }
  const page = await visitor(chrome, gateway, problems);
  await signIn(page, gateway, 'caller');
  await open(page, gateway, 'history/issues');
  await page.getByRole('button', { name: 'close_issue' }).first().waitFor();
  must(await page.getByLabel('Server').inputValue() === 'issues', 'the server of the address is chosen');
  await page.getByLabel('Server').selectOption('');
  await page.getByRole('button', { name: 'close_issue' }).first().waitFor();
  must(await page.getByRole('button', { name: 'read_file' }).count() === 0, 'a caller sees no call of a superuser');
  await page.context().close();
}

/** The charts of a page that was opened now begin with calls of before. */
async function charts_begin_with_the_history({ chrome, gateway, problems }) {
  const at = (seconds) => new Date(Date.now() - seconds * 1000).toISOString();
  const call = (seconds, outcome) => ({ id: 1, at: at(seconds), call: 1, server: 'issues', tool: 't', outcome, duration_ms: 5, attempts: [{}] });
  const page = await visitor(chrome, gateway, problems);
  await page.route('**/api/v1/mcp/history?*', (route) => route.fulfill({ status: 200, contentType: 'application/json',
    body: JSON.stringify({ calls: [call(20, 'ok'), call(400, 'tool_error'), call(800, 'ok')] }) }));
  await signIn(page, gateway, 'superuser');
  const line = page.locator('li.server', { has: page.getByRole('link', { name: 'issues', exact: true }) }).locator('.line.rate');
  await eventually('the line has the points of 15 minutes', async () => (await line.getAttribute('points'))?.split(' ').length >= 59);
  const heights = (await line.getAttribute('points')).split(' ').map((point) => Number(point.split(',')[1]));
  must(new Set(heights).size > 1, 'the calls of before are seen');
  await page.context().close();
}

async function server_is_disabled_and_enabled({ chrome, gateway, problems }) {
  const state = async () => (await (await gateway.rest('reader', 'GET', '/servers/issues')).json()).state;
  const page = await visitor(chrome, gateway, problems);
  await signIn(page, gateway, 'superuser');
  await open(page, gateway, 'servers/issues');
  await page.getByRole('button', { name: 'Disable' }).click();
  must(await state() === 'ready', 'nothing happens before the confirmation');
  await confirm(page, 'Disable');
  await page.getByText('This server offers no tools now.').waitFor();
  must(await state() === 'disabled', 'it is disabled');
  await page.getByRole('button', { name: 'Enable' }).click();
  await confirm(page, 'Enable');
  await page.getByRole('heading', { name: /^Tools \([1-9]/ }).waitFor();
  must(await state() === 'ready', 'it is ready again');
  await page.context().close();
}

async function changed_tool_is_compared_and_approved({ chrome, gateway, scene, problems }) {
  scene.changeFiles();
  const page = await visitor(chrome, gateway, problems);
  await signIn(page, gateway, 'superuser');
  await open(page, gateway, 'servers/files');
  await page.getByRole('button', { name: 'Reconnect' }).click();
  await confirm(page, 'Reconnect');
  await page.getByRole('navigation', { name: 'Pages' }).getByRole('link', { name: /Changed tools/ }).click();
  const change = page.locator('article', { hasText: 'read_file' });
  await change.getByText('blocked until approved').waitFor();
  must((await change.locator('ins').allTextContents()).some((line) => line.includes('id_rsa')), 'the new text is marked');
  await change.getByRole('button', { name: 'Approve' }).click();
  await confirm(page, 'Approve');
  await eventually('it is approved', async () => (await (await gateway.rest('reader', 'GET', '/servers/files')).json()).changed_tool_count === 0);
  await change.waitFor({ state: 'detached' });
  await page.context().close();
}

async function configuration_has_references_and_no_secrets({ chrome, gateway, problems }) {
  const page = await visitor(chrome, gateway, problems);
  await signIn(page, gateway, 'superuser');
  await open(page, gateway, 'configuration');
  const shown = page.getByRole('region', { name: 'Configuration' });
  await shown.waitFor();
  const text = await shown.textContent();
  must(text.includes('Bearer ${TEAM_TOKEN}') && text.includes('description: Issues of the team'), `it is readable:\n${text}`);
  must(!text.includes('canary') && !text.includes('sha256:'), 'it has no secret');
  await page.context().close();
}

async function keyboard_reaches_everything_and_dialogs_give_the_focus_back({ chrome, gateway, problems }) {
  const page = await visitor(chrome, gateway, problems);
  await signIn(page, gateway, 'superuser');
  await page.locator('li.server').first().waitFor();
  await page.keyboard.press('?');
  await page.getByRole('dialog', { name: 'Keyboard shortcuts' }).waitFor();
  await page.keyboard.press('Escape');
  await page.getByRole('dialog', { name: 'Keyboard shortcuts' }).waitFor({ state: 'detached' });
  await page.keyboard.press('/');
  await eventually('a slash goes to the filter', () => page.evaluate(() => document.activeElement.type === 'search'));
  await page.evaluate(() => document.activeElement.blur());
  await page.keyboard.press('g');
  await page.keyboard.press('t');
  await page.getByRole('heading', { name: 'Tools', level: 1 }).waitFor();
  await open(page, gateway, 'servers/issues');
  const reset = page.getByRole('button', { name: 'Reset breaker' });
  await reset.focus();
  await page.keyboard.press('Enter');
  await page.getByRole('dialog').waitFor();
  must(await page.evaluate(() => document.activeElement.textContent) === 'Cancel', 'the harmless answer has the focus');
  await page.keyboard.press('Escape');
  await page.getByRole('dialog').waitFor({ state: 'detached' });
  must(await page.evaluate(() => document.activeElement.textContent) === 'Reset breaker', 'the focus is back');
  await page.context().close();
}

async function signing_out_ends_the_session({ chrome, gateway, problems }) {
  const page = await visitor(chrome, gateway, problems);
  await signIn(page, gateway, 'reader');
  const cookies = await page.context().cookies();
  const session = cookies.find((cookie) => cookie.name.startsWith('switchyard-session'));
  must(session.httpOnly && session.sameSite === 'Lax', 'the cookie is out of reach of scripts');
  must(await page.evaluate(() => Object.values(localStorage).concat(Object.values(sessionStorage), document.cookie).join('')) === '', 'no secret is kept in the page');
  await page.getByRole('button', { name: 'Sign out' }).click();
  await confirm(page, 'Sign out');
  await page.getByText('You are signed out.').first().waitFor();
  const after = await fetch(`${gateway.base}/api/v1/mcp/servers`, { headers: { cookie: `${session.name}=${session.value}` } });
  must(after.status === 401, `the old cookie is worth nothing: ${after.status}`);
  await page.context().close();
}

export const CHECKS = {
  failing_server_is_added_watched_and_reset, tool_is_called_by_its_form, tool_that_asks_gets_its_answer,
  calls_are_shown_as_they_happen, events_as_specified_are_shown, failed_call_of_before_is_found_and_exported, charts_begin_with_the_history, server_is_disabled_and_enabled, changed_tool_is_compared_and_approved, configuration_has_references_and_no_secrets,
  keyboard_reaches_everything_and_dialogs_give_the_focus_back, signing_out_ends_the_session,
};
