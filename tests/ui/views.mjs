// Views as an operator sees them: what they have, what their rules select, and why a tool is there or not.

import { execFileSync } from 'node:child_process';

import { onEveryScreen } from './features.mjs';
import { eventually, must, open } from './lab.mjs';

const rowOf = (page, name) => page.locator('.views li.server', { has: page.getByText(name, { exact: true }) });

async function views_with_a_problem_come_first_and_name_their_callers(page, { gateway }) {
  await open(page, gateway, 'views');
  await rowOf(page, 'gone').getByText('no such view').waitFor();
  const names = await page.locator('.views li.server .name :is(a, strong)').allTextContents();
  must(names.join() === 'gone,support,look-only', `the order: ${names}`);
  must((await rowOf(page, 'gone').textContent()).includes('its callers see nothing: lost'), 'it says who sees nothing');
  const support = await rowOf(page, 'support').textContent();
  for (const text of ['1 rule without effect', '3 tools', '1 prompt, 1 resource, 1 template', 'issues, files', 'helpdesk']) must(support.includes(text), `${text}: ${support}`);
  must((await rowOf(page, 'look-only').textContent()).includes('whoever uses its address'), 'nobody is bound to it');
}

async function view_shows_what_its_rules_select_and_the_tools_of_its_clients(page, { gateway, scene }) {
  await page.context().grantPermissions(['clipboard-read', 'clipboard-write']);
  await open(page, gateway, 'views');
  await page.getByRole('link', { name: 'support', exact: true }).click();
  await page.getByRole('heading', { name: 'Tools as its clients get them' }).waitFor();
  must(/issues\/serch in line \d+ selects nothing/.test(await page.locator('.notes').textContent()), 'the note says what and where');
  const rule = (text) => page.locator('tr', { has: page.getByText(text, { exact: true }) });
  await rule('issues/serch').getByText('selects nothing').waitFor();
  await rule('issues/close_issue').getByText('hides 1').waitFor();
  const allowed = rule('issues/*_issue*');
  await allowed.getByText('gives 2').click();
  must((await allowed.locator('.items').textContent()) === 'issues/search_issuesissues/create_issue', await allowed.textContent());
  must((await allowed.textContent()).includes('1 more by other rules'), 'another rule has the third');
  for (const [title, text] of [['Address', `${gateway.base}/mcp/support`], ['A key that is bound to it', 'switchyard key add NAME --role caller --view support']]) {
    await page.getByRole('button', { name: `Copy ${title}` }).click();
    await eventually(`${title} is copied`, async () => await page.evaluate(() => navigator.clipboard.readText()) === text);
  }
  const names = await page.locator('details.tool .tool-name').allTextContents();
  must(names.sort().join() === 'create_issue,read_file,search_issues', `the tools: ${names}`);
  const tool = page.locator('details.tool[data-tool="create_issue"]');
  await tool.locator('> summary').click();
  await tool.locator('.text', { hasText: 'Files an issue for a customer.' }).waitFor();
  await tool.getByText('Changed by the view: _meta, description, title').waitFor();
  await tool.getByText('Hints for clients: always loaded').waitFor();
  const before = scene.issues.calls.length;
  await tool.getByLabel(/^title/).fill('door');
  await tool.getByRole('button', { name: 'Call', exact: true }).click();
  await tool.getByText('created #42').first().waitFor();
  must(scene.issues.calls.length === before + 1, 'it is called through the view');
  const history = await (await gateway.rest('superuser', 'GET', '/history?limit=1')).json();
  must(history.calls[0].tool === 'create_issue', 'the call is recorded');
}

async function tools_are_shown_as_another_caller_has_them(page, { gateway }) {
  const listed = async (role) => (await (await gateway.rest(role, 'GET', '/tools')).json()).tools.map(({ name }) => name).sort().join();
  const shown = async () => (await page.locator('details.tool .tool-name').allTextContents()).sort().join();
  const [own, ofHelpdesk] = [await listed('superuser'), await listed('helpdesk')];
  must(own !== ofHelpdesk, 'they differ');
  await open(page, gateway, 'tools');
  await eventually('the own ones', async () => await shown() === own);
  const as = page.getByRole('combobox', { name: 'As' });
  await as.selectOption({ label: 'helpdesk (support)' });
  await eventually('those of the key', async () => await shown() === ofHelpdesk);
  await page.getByText('As the key helpdesk has them, by the view support.').waitFor();
  must(page.url().endsWith('#/tools/key%3Ahelpdesk'), 'the address is one to pass on');
  await as.selectOption({ label: 'lost (gone)' });
  await page.getByText('There is no such view, so this caller sees nothing.').waitFor();
  await as.selectOption({ label: 'reader (no view)' });
  await eventually('a key without a view has all', async () => await shown() === own);
  await as.selectOption({ label: 'look-only' });
  await eventually('a view', async () => await shown() === 'draw,search_issues');
  await as.selectOption({ label: 'As you' });
  await eventually('the own ones again', async () => await shown() === own);
}

async function why_is_answered_in_the_words_of_the_command_line(page, { gateway }) {
  const told = (tool, view) => execFileSync(gateway.binary, ['why', tool, ...(view ? ['--view', view] : []), '--url', gateway.base, '--key', gateway.keys.superuser], { encoding: 'utf8' })
    .trim().split('\n').filter(Boolean).join('\n');
  const box = page.getByRole('dialog', { name: 'Why is a tool here, or not?' });
  const shown = async () => (await box.locator('.reasons > div').evaluateAll((lines) => lines.map((line) => `${line.children[0].textContent}: ${line.children[1].textContent}`))).join('\n');
  await open(page, gateway, 'views/support');
  await page.getByRole('button', { name: 'Why is a tool not here?' }).click();
  for (const tool of ['close_issue', 'issues/book', 'read_file']) {
    await box.getByLabel('Tool').fill(tool);
    await box.getByRole('button', { name: 'Explain' }).click();
    const expected = told(tool, 'support');
    await eventually(`${tool}: ${expected}\n--\n${await shown()}`, async () => await shown() === expected);
  }
  must(/rule: views\.support\.deny: issues\/close_issue in line \d+ of .*mcp_servers\.yaml/.test(told('close_issue', 'support')), 'the rule has its file and line');
  await box.getByLabel('For').selectOption({ label: 'lost (gone)' });
  await box.getByRole('button', { name: 'Explain' }).click();
  await box.getByText('there is no view called "gone"').waitFor();
  await box.getByLabel('For').selectOption({ label: 'Clients without a view' });
  await box.getByLabel('Tool').fill('nothing_like_it');
  await box.getByRole('button', { name: 'Explain' }).click();
  await box.getByText(/there is no tool called "nothing_like_it"/).waitFor();
  await page.keyboard.press('Escape');
  await open(page, gateway, 'tools');
  const tool = page.locator('details.tool[data-tool="draw"]');
  await tool.locator('> summary').click();
  await tool.getByRole('button', { name: 'Why is it here?' }).click();
  await eventually('it is asked at once', async () => await shown() === told('issues/draw'));
}

async function gateway_without_views_explains_them(page, { gateway }) {
  await open(page, gateway, 'views');
  await page.getByText(/A view is a named selection of servers/).waitFor();
  await page.getByRole('region', { name: 'A view' }).getByText('allow: ["tickets/*", "docs/search"]').waitFor();
  await page.getByRole('region', { name: 'A key for it' }).getByText('switchyard key add NAME --role caller --view support').waitFor();
}

async function caller_sees_no_views(page, { gateway }) {
  await open(page, gateway, 'views');
  await page.getByText('Your role may not see views.').waitFor();
  await open(page, gateway, 'tools');
  await page.locator('details.tool').first().waitFor();
  must(await page.getByRole('combobox', { name: 'As' }).count() === 0 && await page.getByRole('button', { name: /^Why/ }).count() === 0, 'nor the tools of others');
}

async function page_of_views_follows_a_reload(page, { gateway, scene }) {
  const head = gateway.head;
  await open(page, gateway, 'views');
  await rowOf(page, 'support').waitFor();
  try {
    gateway.head = head.replace('  look-only:', '  added: {servers: [files]}\n  look-only:');
    gateway.write(scene.yaml());
    await page.getByRole('button', { name: 'Reload configuration' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Reload' }).click();
    await rowOf(page, 'added').waitFor({ timeout: 5000 });
  } finally {
    gateway.head = head;
    gateway.write(scene.yaml());
    await gateway.rest('superuser', 'POST', '/reload');
  }
}

const FEATURES = [
  ['gateway', 'superuser', views_with_a_problem_come_first_and_name_their_callers], ['gateway', 'superuser', view_shows_what_its_rules_select_and_the_tools_of_its_clients],
  ['gateway', 'superuser', tools_are_shown_as_another_caller_has_them], ['gateway', 'superuser', why_is_answered_in_the_words_of_the_command_line],
  ['big', 'superuser', gateway_without_views_explains_them], ['gateway', 'caller', caller_sees_no_views], ['gateway', 'superuser', page_of_views_follows_a_reload],
];

export const CHECKS = Object.fromEntries(FEATURES.map((feature) => [feature[2].name, onEveryScreen(feature)]));
