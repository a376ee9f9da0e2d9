// What each part of the dashboard shows and does, on every screen: a table of features, each with its world, its visitor and its
// check. After a check, the page is looked at as a whole and kept as a picture.

import { execFile } from 'node:child_process';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';

import { eventually, looksRight, must, open, SCREENS, signIn, visitor } from './lab.mjs';

const run = promisify(execFile);
const rowOf = (page, name) => page.locator('li.server', { has: page.getByRole('link', { name, exact: true }) });
const choice = (page, name) => page.locator('.choice').filter({ hasText: new RegExp(`^${name}\\d`) });
const isWide = (page) => page.viewportSize().width > 820;

/** Opens a tool, resource or prompt of the server on the page. */
async function opened(page, name) {
  const part = page.locator(`details.tool[data-tool="${name}"]`);
  await part.locator('> summary').click();
  return part;
}

async function servers_with_a_problem_come_first_and_are_counted_once(page, { gateway, many }) {
  await open(page, gateway, 'servers');
  await rowOf(page, many.changing).getByText('1 tool blocked').waitFor();
  const names = await page.locator('li.server .name a').allTextContents();
  must(names.length === 45, `there are ${names.length} servers`);
  must(names.slice(0, 3).sort().join() === `away,${many.changing},wrong`, `first: ${names.slice(0, 5)}`);
  must(names.at(-1) === 'retired', `last: ${names.at(-1)}`);
  // 44 are enabled, and all but `away` and `wrong` answer. The third problem is the blocked tool.
  const words = '42 of 44 healthy · 3 with a problem';
  must(await page.locator('#overall .long').textContent() === words && await page.locator('main .heading p').textContent() === words, 'both say the same');
  must((await choice(page, 'with a problem').textContent()).endsWith('3'), 'the choice has the same number');
}

async function servers_are_chosen_by_state(page, { gateway, many }) {
  await open(page, gateway, 'servers');
  await choice(page, 'with a problem').click();
  const names = () => page.locator('li.server .name a').allTextContents();
  await eventually('those with a problem are left', async () => (await names()).length === 3);
  must(await choice(page, 'with a problem').getAttribute('aria-pressed') === 'true', 'the choice is told');
  await rowOf(page, many.changing).getByRole('link', { name: many.changing, exact: true }).click();
  await page.getByRole('heading', { name: many.changing, level: 1 }).waitFor();
  await page.goBack();
  await eventually('the choice is kept', async () => (await names()).length === 3);
  await choice(page, 'disabled').click();
  await eventually('the disabled one is left', async () => (await names()).join() === 'retired');
  await page.getByRole('searchbox', { name: 'Filter servers' }).fill('team');
  await page.getByText('No server is like that.').waitFor();
  await page.getByRole('searchbox', { name: 'Filter servers' }).fill('');
  await choice(page, 'not configured').click();
  await eventually('the one with a mistake is left', async () => (await names()).join() === 'wrong');
}

async function server_with_a_mistake_in_its_entry_says_where(page, { gateway }) {
  await open(page, gateway, 'servers');
  const row = rowOf(page, 'wrong');
  await row.getByText('not configured').waitFor();
  const why = await row.locator('.why').textContent();
  must(/line \d+, column \d+/.test(why) && why.includes('SWITCHYARD_TEST_NOT_SET'), `it says where: ${why}`);
  must(await row.locator('.cell').count() === 0, 'there is no number of what never ran');
  await row.getByRole('link', { name: 'wrong', exact: true }).click();
  await page.getByText('Correct its entry in the configuration file and reload:').waitFor();
  must(/line \d+, column \d+/.test(await page.locator('.notes').textContent()), 'its own view says where too');
  must(await page.locator('.chart:visible').count() === 0 && await page.getByRole('button', { name: 'Reconnect' }).count() === 0, 'nothing can be done with it');
}

async function errors_of_a_server_are_counted(page, { gateway }) {
  await open(page, gateway, 'servers');
  const cell = rowOf(page, 'issues').locator('.errors');
  await cell.waitFor();
  const count = async () => Number(/(\d+) \(\d+\.\d %\)/.exec(await cell.textContent())?.[1] ?? 0);
  const before = await count();
  for (let call = 0; call < 2; call += 1) await gateway.rest('caller', 'POST', '/call', { server: 'issues', tool: 'close_issue', arguments: { number: 7 } });
  await eventually('both errors are counted', async () => await count() === before + 2);
  await eventually('they are a rate', async () => /[1-9]\/s|0\.[1-9]\/s/.test(await cell.textContent()));
}

async function all_tools_are_shown_by_server_and_annotation(page, { gateway, out }) {
  await open(page, gateway, 'servers');
  // A frame that takes long is a stall. The machine of a test may be busy, so only the longest counts.
  await page.evaluate(() => {
    window.longest = 0;
    new PerformanceObserver((list) => { for (const { duration } of list.getEntries()) window.longest = Math.max(window.longest, duration); }).observe({ type: 'longtask' });
  });
  await page.evaluate(() => { location.hash = '#/tools'; });
  await page.locator('main').getByText('615 of 615', { exact: true }).waitFor();
  await eventually('every tool has its row', async () => await page.locator('details.tool').count() === 615);
  must(await page.locator('section.group').count() === 42, 'each server has its group');
  await page.getByRole('searchbox', { name: 'Find a tool' }).pressSequentially('team_07');
  await page.locator('main').getByText('15 of 615', { exact: true }).waitFor();
  must(await page.locator('section.group:visible').count() === 1, 'servers without a tool that fits are gone');
  await choice(page, 'destructive').click();
  await page.locator('main').getByText('4 of 615', { exact: true }).waitFor();
  must(await page.locator('details.tool:visible .tag.destructive').count() === 4, 'they are marked');
  await page.getByRole('searchbox', { name: 'Find a tool' }).fill('');
  await choice(page, 'all').click();
  await page.locator('main').getByText('615 of 615', { exact: true }).waitFor();
  const stall = await page.evaluate(() => window.longest);
  must(stall < 500, `the page stalled for ${stall} ms`);
  await page.screenshot({ path: join(out, `tools-all-${page.viewportSize().width}.png`) });
  await page.getByRole('combobox', { name: 'Server' }).selectOption('team-41');
  await page.locator('main').getByText('14 of 615', { exact: true }).waitFor();
  const tool = await opened(page, 'team_41_tool_0');
  await tool.getByRole('button', { name: 'Call', exact: true }).click();
  await tool.getByText('done').first().waitFor();
  return `longest stall ${stall} ms`;
}

async function resources_and_prompts_are_shown_and_used(page, { gateway }) {
  await open(page, gateway, 'servers/issues');
  await choice(page, 'Resources').click();
  await page.getByRole('heading', { name: 'Resources (3)' }).waitFor();
  const notes = await opened(page, 'notes://today');
  await notes.getByRole('button', { name: 'Read' }).click();
  await notes.getByText('the notes at notes://today').first().waitFor();
  const archive = await opened(page, 'files://archive');
  await archive.getByRole('button', { name: 'Read' }).click();
  const download = page.waitForEvent('download');
  await archive.getByRole('button', { name: 'Save as a file' }).click();
  must((await download).suggestedFilename() === 'archive', 'what is no text can be saved');
  const door = await opened(page, 'pictures://door');
  await door.getByRole('button', { name: 'Read' }).click();
  await eventually('the picture is shown', () => door.locator('img').evaluate((image) => image.naturalWidth === 2).catch(() => false));
  await choice(page, 'Templates').click();
  const template = await opened(page, 'notes://{day}');
  await template.getByLabel(/^uri/).fill('notes://friday');
  await template.getByRole('button', { name: 'Read' }).click();
  await template.getByText('the notes at notes://friday').first().waitFor();
  await choice(page, 'Prompts').click();
  const prompt = await opened(page, 'summarize');
  await prompt.getByRole('button', { name: 'Get' }).click();
  await prompt.getByText('issue is required').waitFor();
  await prompt.getByLabel(/^issue/).fill('7');
  await prompt.getByRole('button', { name: 'Get' }).click();
  await prompt.getByText('summarize issue 7 in English').first().waitFor();
}

async function images_and_sounds_of_allowed_types_are_shown(page, { gateway }) {
  await open(page, gateway, 'servers/issues');
  const tool = await opened(page, 'draw');
  await tool.getByRole('button', { name: 'Call', exact: true }).click();
  await tool.getByText('answered').waitFor();
  const [image, sound] = [tool.locator('img'), tool.locator('audio')];
  await eventually('the image has its pixels', () => image.first().evaluate((one) => one.naturalWidth === 2));
  await eventually('the sound has its length', () => sound.evaluate((one) => one.duration === 0.5));
  await tool.getByText(/image, image\/png, 3 B, damaged/).waitFor();
  must(await image.count() === 1, 'no other image is shown');
  must((await tool.getByText('image, image/svg+xml,').count()) === 1, 'what may hold a script is only named');
  must(await page.evaluate(() => window.pwned) === undefined, 'no script ran');
  await tool.getByText('a note inside').first().waitFor();
}

async function call_is_copied_as_commands_that_work(page, { gateway, scene }) {
  await page.context().grantPermissions(['clipboard-read', 'clipboard-write']);
  await open(page, gateway, 'servers/issues');
  const tool = await opened(page, 'create_issue');
  await tool.getByRole('button', { name: 'As a command…' }).click();
  await tool.getByText('title is required').waitFor();
  const title = `it's "so" $HOME \u202e ${page.viewportSize().width}`;
  await tool.getByLabel(/^title/).fill(title);
  await tool.getByRole('button', { name: 'As a command…' }).click();
  const box = page.getByRole('dialog', { name: 'Call create_issue from a shell' });
  const environment = { ...process.env, SWITCHYARD_KEY: gateway.keys.caller, PATH: `${dirname(gateway.binary)}:${process.env.PATH}` };
  for (const name of ['curl', 'Command line']) {
    await box.getByRole('button', { name: `Copy ${name}` }).click();
    const text = await page.evaluate(() => navigator.clipboard.readText());
    must(text === await box.getByRole('region', { name }).textContent(), `${name}: what is read is what is copied`);
    must(!Object.values(gateway.keys).some((key) => text.includes(key)), `${name}: it has a key`);
    const before = scene.issues.calls.length;
    await run('bash', ['-c', text], { env: environment });
    const given = scene.issues.calls.at(-1)?.given;
    must(scene.issues.calls.length === before + 1 && given.title === title, `${name}: the server got ${JSON.stringify(given)}`);
  }
}

async function charts_have_axes_and_tell_each_moment(page, { gateway }) {
  await gateway.rest('caller', 'POST', '/call', { server: 'issues', tool: 'create_issue', arguments: { title: 'x' } });
  await open(page, gateway, 'servers/issues');
  const chart = page.locator('.chart', { has: page.getByText('Duration', { exact: true }) });
  const plot = page.getByRole('slider', { name: 'Duration, the last 15 minutes' });
  await eventually('the durations are known', async () => /p50 [\d.]+ m?s, p99 [\d.]+ m?s/.test(await plot.getAttribute('aria-valuetext')));
  must(/ms|s/.test(await chart.locator('.y-axis').textContent()) && (await chart.locator('.x-axis').textContent()).startsWith('−15 min'), 'the axes have units');
  must((await chart.locator('.legend .swatch').count()) === 2, 'both lines have a name');
  must(await chart.locator('.moment').textContent() === 'now', 'it tells of now');
  await plot.scrollIntoViewIfNeeded();
  const { x, y, width } = await plot.boundingBox();
  await page.mouse.move(x + width / 3, y + 40);
  await eventually('the pointer reads a moment', async () => /^\d\d:\d\d:\d\d$/.test(await chart.locator('.moment').textContent()));
  must(await chart.locator('.cursor').count() === 1, 'and marks it');
  await page.waitForTimeout(2500);
  must(await chart.locator('.cursor').count() === 1, 'which stays when the page asks again');
  await page.mouse.move(1, 1);
  await plot.focus();
  const now = await plot.getAttribute('aria-valuetext');
  await page.keyboard.press('ArrowLeft');
  must(/^\d\d:\d\d:\d\d: p50 /.test(await plot.getAttribute('aria-valuetext')), 'the arrow keys read another moment');
  await page.keyboard.press('End');
  must((await plot.getAttribute('aria-valuetext')).startsWith('now: ') && now.startsWith('now: '), 'and come back to now');
  await page.keyboard.press('Home');
}

async function server_request_is_scrolled_to_and_has_choices(page, { gateway }) {
  await open(page, gateway, 'servers/issues');
  const tool = await opened(page, 'order');
  await tool.getByRole('button', { name: 'Call', exact: true }).click();
  const box = tool.getByRole('region', { name: 'The server asks' });
  await box.waitFor();
  must(await box.evaluate((one) => one.contains(document.activeElement) && document.activeElement.tagName === 'SELECT'), 'its first field has the cursor');
  await eventually('it is before the eyes', () => box.evaluate((one) => {
    const { top, bottom } = one.getBoundingClientRect();
    return top >= 0 && bottom <= innerHeight;
  }));
  await box.getByLabel(/^Size/).selectOption({ label: 'Large' });
  await box.getByRole('button', { name: 'Answer' }).click();
  await box.getByText('choose at least 1 of Extras').waitFor();
  await box.getByLabel('Cheese').check();
  await box.getByLabel('Nuts').check();
  await looksRight(page, 'a server request');
  await page.screenshot({ path: join(gateway.out, `question-${page.viewportSize().width}.png`) });
  await box.getByRole('button', { name: 'Answer' }).click();
  await tool.getByText('ordered: {"size":"l","extras":["c","n"]}').first().waitFor();
}

async function page_that_a_server_asks_to_open_is_named_whole(page, { gateway }) {
  await open(page, gateway, 'servers/issues');
  const tool = await opened(page, 'sign');
  await tool.getByRole('button', { name: 'Call', exact: true }).click();
  const link = tool.getByRole('link', { name: 'Open the page at sign.example.org' });
  await link.waitFor();
  must(await link.getAttribute('href') === 'https://sign.example.org/paper?id=7' && await link.getAttribute('rel') === 'noopener noreferrer', 'it leads there and tells nothing');
  await tool.getByText('https://sign.example.org/paper?id=7', { exact: true }).waitFor();
  must(await link.evaluate((one) => one === document.activeElement), 'it has the cursor');
  await looksRight(page, 'a page to open');
  await tool.getByRole('button', { name: 'I have opened it' }).click();
  await tool.getByText('signed: accept').first().waitFor();
}

async function dialog_is_closed_by_another_view(page, { gateway }) {
  await open(page, gateway, 'servers/issues');
  await page.getByRole('button', { name: 'Reset breaker' }).click();
  await page.getByRole('dialog').waitFor();
  await page.evaluate(() => { location.hash = '#/system'; });
  await page.getByRole('heading', { name: 'System', level: 1 }).waitFor();
  must(await page.getByRole('dialog').count() === 0, 'the dialog is gone');
  await page.getByText('Memory budget').waitFor();
}

async function lost_gateway_dims_the_page_and_tells_the_time(page, { gateway, problems }) {
  await open(page, gateway, 'servers');
  await rowOf(page, 'issues').waitFor();
  const banner = page.locator('#lost');
  must(await banner.isHidden(), 'all is well before');
  await page.route('**/api/v1/mcp/**', (route) => route.abort());
  await banner.getByText(/What you see is from \d\d:\d\d:\d\d\./).waitFor();
  must(await page.locator('main').evaluate((one) => getComputedStyle(one).filter) === 'grayscale(1)', 'the page is dimmed');
  await looksRight(page, 'a lost gateway');
  await page.screenshot({ path: join(gateway.out, `lost-${page.viewportSize().width}.png`) });
  await page.unroute('**/api/v1/mcp/**');
  await banner.getByRole('button', { name: 'Try again' }).click();
  await banner.waitFor({ state: 'hidden' });
  must(await page.locator('main').evaluate((one) => getComputedStyle(one).filter) === 'none', 'the page is as before');
  // The browser notes each request that was cut.
  problems.splice(0, problems.length, ...problems.filter((problem) => !problem.includes('net::ERR_FAILED')));
}

async function menu_has_every_view_and_the_visitor(page, { gateway }) {
  await open(page, gateway, 'calls');
  const links = page.getByRole('navigation', { name: 'Pages' }).getByRole('link');
  const menu = page.getByRole('button', { name: 'Menu' });
  if (!isWide(page)) {
    must(await links.count() === 0 && await page.getByRole('button', { name: 'Sign out' }).count() === 0, 'it is closed at first');
    await menu.click();
    must(await menu.getAttribute('aria-expanded') === 'true', 'the button says that it is open');
  }
  must(await links.count() >= 8, `there are ${await links.count()} views`);
  const { width, height } = page.viewportSize();
  for (const one of [...await links.all(), page.getByRole('button', { name: /^Theme/ }), page.getByRole('button', { name: 'Sign out' })]) {
    const box = await one.boundingBox();
    must(box.x >= 0 && box.y >= 0 && box.x + box.width <= width && box.y + box.height <= height, `${await one.textContent()} is outside of the screen`);
  }
  if (isWide(page)) return;
  await looksRight(page, 'an open menu');
  await page.screenshot({ path: join(gateway.out, 'menu-390.png') });
  await page.keyboard.press('Escape');
  must(await links.count() === 0 && await menu.evaluate((one) => one === document.activeElement), 'Escape closes it');
  await menu.click();
  await links.filter({ hasText: 'System' }).click();
  await page.getByRole('heading', { name: 'System', level: 1 }).waitFor();
  must(await links.count() === 0, 'another view closes it');
  must(await page.getByRole('button', { name: 'Menu' }).isVisible(), 'and it can be opened again');
}

async function sign_in_page_has_the_design_of_the_dashboard(page, { gateway }) {
  const style = () => page.evaluate(() => {
    const of = (element) => { const { backgroundColor, color, fontFamily } = getComputedStyle(element); return { backgroundColor, color, fontFamily }; };
    return JSON.stringify([of(document.body), of(document.querySelector('.primary, button[type="submit"]')).backgroundColor]);
  });
  await page.goto(`${gateway.base}/ui/`);
  await page.getByRole('link', { name: 'Sign in' }).waitFor();
  await looksRight(page, 'signed out');
  await page.screenshot({ path: join(gateway.out, `signed-out-${page.viewportSize().width}.png`) });
  const own = await style();
  await page.getByRole('link', { name: 'Sign in' }).click();
  await page.getByLabel('Key or token').fill('wrong');
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.getByRole('alert').waitFor();
  must(await style() === own, `${await style()} is not ${own}`);
}

/** Name → the world (`gateway` or `big`), the role of the visitor (none: nobody), and the check. */
const FEATURES = [
  ['big', 'superuser', servers_with_a_problem_come_first_and_are_counted_once], ['big', 'superuser', servers_are_chosen_by_state],
  ['big', 'superuser', server_with_a_mistake_in_its_entry_says_where],
  ['gateway', 'superuser', errors_of_a_server_are_counted], ['gateway', 'caller', resources_and_prompts_are_shown_and_used],
  ['gateway', 'caller', images_and_sounds_of_allowed_types_are_shown], ['gateway', 'caller', call_is_copied_as_commands_that_work],
  ['gateway', 'superuser', charts_have_axes_and_tell_each_moment], ['gateway', 'caller', server_request_is_scrolled_to_and_has_choices],
  ['gateway', 'caller', page_that_a_server_asks_to_open_is_named_whole],
  ['gateway', 'superuser', dialog_is_closed_by_another_view], ['gateway', 'superuser', lost_gateway_dims_the_page_and_tells_the_time],
  ['gateway', 'superuser', menu_has_every_view_and_the_visitor], ['gateway', null, sign_in_page_has_the_design_of_the_dashboard],
];

export function onEveryScreen([world, role, check]) {
  return async (lab) => {
    const gateway = Object.assign(lab[world], { out: lab.out });
    if (world === 'big') await changedOnce(lab);
    const told = [];
    for (const screen of SCREENS) {
      const where = `${check.name}-${screen.viewport.width}-${screen.colorScheme}`;
      const page = await visitor(lab.chrome, gateway, lab.problems, screen);
      try {
        if (role) await signIn(page, gateway, role);
        told.push(await check(page, { ...lab, gateway }));
        await looksRight(page, where);
      } finally {
        await page.screenshot({ path: join(lab.out, `${where}.png`), fullPage: true });
        await page.context().close();
      }
    }
    return told.filter(Boolean).join(', ');
  };
}

/** Changes a tool of the crowd, which is blocked from then on. */
async function changedOnce({ big, many }) {
  if (big.isChanged) return;
  big.isChanged = true;
  many.change();
  await big.rest('superuser', 'POST', `/servers/${many.changing}/reconnect`);
}

/** A gateway that says nothing is as lost as one that is gone. */
async function silent_gateway_is_noticed({ chrome, gateway, problems }) {
  const page = await visitor(chrome, gateway, problems);
  await signIn(page, gateway, 'reader');
  await rowOf(page, 'issues').waitFor();
  gateway.process.kill('SIGSTOP');
  try {
    await page.locator('#lost').getByText(/What you see is from/).waitFor({ timeout: 20000 });
  } finally {
    gateway.process.kill('SIGCONT');
  }
  await page.locator('#lost').waitFor({ state: 'hidden' });
  await page.context().close();
}

export const CHECKS = { ...Object.fromEntries(FEATURES.map((feature) => [feature[2].name, onEveryScreen(feature)])), silent_gateway_is_noticed };
/** It says how long the page stalls. */
export const ALONE = { all_tools_are_shown_by_server_and_annotation: onEveryScreen(['big', 'caller', all_tools_are_shown_by_server_and_annotation]) };
