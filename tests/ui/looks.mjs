// How the views look, and whether everybody can use them.

import { copyFileSync, statSync } from 'node:fs';
import { join } from 'node:path';

import { looksRight, must, open, SCREENS, signIn, visitor } from './lab.mjs';

const VIEWS = ['servers', 'servers/issues', 'tools', 'views', 'views/support', 'calls', 'history', 'changes', 'logins', 'keys', 'system', 'configuration'];
const MOST_PICTURE = 200 * 1024;

async function traffic(gateway, isRunning) {
  while (isRunning()) {
    await Promise.all([gateway.rest('caller', 'POST', '/call', { server: 'issues', tool: 'search_issues', arguments: { query: 'door', state: 'open' } }),
      gateway.rest('caller', 'POST', '/call', { server: 'search', tool: 'evil_error', arguments: {} })]);
    await new Promise((resolve) => { setTimeout(resolve, 40 + Math.random() * 120); });
  }
}

async function views_are_accessible_and_fit_at_every_size({ chrome, gateway, scene, problems, out, picture }) {
  gateway.write(scene.yaml(true));
  await gateway.rest('superuser', 'POST', '/reload');
  scene.billing.isFailing = true;
  for (let call = 0; call < 3; call += 1) await gateway.rest('superuser', 'POST', '/call', { server: 'billing', tool: 'ping' });
  let isRunning = true;
  const load = traffic(gateway, () => isRunning);
  try {
    // A page of 320 px is one of 1280 px at 400 %.
    for (const screen of [...SCREENS, { viewport: { width: 320, height: 700 }, colorScheme: 'light' }]) {
      const { viewport: { width }, colorScheme } = screen;
      const isFirst = screen === SCREENS[0];
      const page = await visitor(chrome, gateway, problems, screen);
      await signIn(page, gateway, 'superuser');
      await page.waitForTimeout(isFirst ? 9000 : 600);
      for (const view of VIEWS) {
        const where = `${view.replace('/', '-')}-${width}-${colorScheme}`;
        await open(page, gateway, view);
        await page.waitForTimeout(350);
        if (view === 'servers/issues') await page.locator('details.tool > summary').first().click();
        await page.screenshot({ path: join(out, `${where}.png`), fullPage: true });
        if (view === 'tools') await page.getByRole('region', { name: 'Tools of issues' }).getByText('search_issues').waitFor();
        if (view === 'calls') await page.getByRole('columnheader', { name: 'Duration' }).waitFor();
        await looksRight(page, where);
      }
      await page.keyboard.press('?');
      await page.getByRole('dialog').waitFor();
      await looksRight(page, `help-${width}-${colorScheme}`);
      await page.keyboard.press('Escape');
      if (picture && width === 1440) await forDocumentation(page, gateway, out, colorScheme === 'light' ? picture : picture.replace(/\.png$/, '-dark.png'));
      await page.context().close();
    }
  } finally {
    isRunning = false;
    await load;
    scene.billing.isFailing = false;
  }
}

async function forDocumentation(page, gateway, out, picture) {
  await page.setViewportSize({ width: 1280, height: 520 });
  await open(page, gateway, 'servers');
  await page.waitForTimeout(2500);
  const path = join(out, 'documentation.png');
  await page.screenshot({ path });
  must(statSync(path).size <= MOST_PICTURE, `the picture has ${statSync(path).size} bytes`);
  copyFileSync(path, picture);
}

async function first_paint_is_within_300_ms({ chrome, gateway, problems }) {
  const times = [];
  for (let round = 0; round < 5; round += 1) {
    const page = await visitor(chrome, gateway, problems);
    await page.goto(`${gateway.base}/ui/`);
    await page.waitForTimeout(200);
    times.push(await page.evaluate(() => performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? Infinity));
    await page.context().close();
  }
  times.sort((a, b) => a - b);
  const median = times[2];
  must(median <= 300, `first contentful paint after ${times.map((time) => time.toFixed(0)).join(', ')} ms`);
  return `first contentful paint after ${median.toFixed(0)} ms (the median of 5, empty cache)`;
}

export const CHECKS = { views_are_accessible_and_fit_at_every_size };
export const ALONE = { first_paint_is_within_300_ms };
