// What every check needs: a gateway with its configuration file, and a browser that notes each problem.

import { execFileSync, spawn } from 'node:child_process';
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { createServer } from 'node:net';
import { join } from 'node:path';

const modules = createRequire(join(process.env.SWITCHYARD_UI ?? '.', 'package.json'));
const { chromium } = modules('playwright-core');
const axeSource = modules('axe-core').source;

export class Failed extends Error {}

export function must(condition, text) {
  if (!condition) throw new Failed(text);
}

export async function eventually(text, test, ms = 15000) {
  const end = Date.now() + ms;
  for (;;) {
    const found = await test();
    if (found) return found;
    must(Date.now() < end, `not within ${ms / 1000} s: ${text}`);
    await new Promise((resolve) => { setTimeout(resolve, 100); });
  }
}

/** A port that was free just now. The system gives none of this range to a connection, so that nothing takes it before the gateway listens. */
async function freePort() {
  for (;;) {
    const port = 10000 + Math.floor(Math.random() * 22000);
    const server = createServer();
    const isFree = await new Promise((resolve) => { server.once('error', () => resolve(false)).listen(port, '127.0.0.1', () => resolve(true)); });
    await new Promise((resolve) => { server.close(resolve); });
    if (isFree) return port;
  }
}

/** Makes a key; returns its text and its entry in the configuration file. */
function mint(binary, id, role, view) {
  const printed = execFileSync(binary, ['key', 'new', '--id', id, '--role', role], { encoding: 'utf8' });
  const key = /^#\s+(swy_\S+)$/m.exec(printed)[1];
  const hash = /hash: (\S+)/.exec(printed)[1];
  return { key, entry: `    - {id: ${id}, role: ${role}, hash: "${hash}"${view ? `, view: ${view}` : ''}}\n` };
}

/** A running gateway. */
export class Gateway {
  /** Starts it with `servers` and `views`, parts of the file. `bound` are callers of views, by the names of their keys. */
  static async start({ binary, folder, files, views = '', bound = {} }, servers) {
    const gateway = new Gateway();
    Object.assign(gateway, { binary, files });
    const keys = [...['superuser', 'caller', 'reader'].map((role) => [role, mint(binary, role, role)]),
      ...Object.entries(bound).map(([id, view]) => [id, mint(binary, id, 'caller', view)])];
    gateway.keys = Object.fromEntries(keys.map(([id, { key }]) => [id, key]));
    const entries = keys.map(([, { entry }]) => entry).join('');
    gateway.head = `server:\n  auth_mode: api_key\n  keys_file: keys.json\n  api_keys:\n${entries}${views}mcp_servers:\n`;
    gateway.file = join(folder, 'mcp_servers.yaml');
    gateway.write(servers);
    const port = await freePort();
    gateway.base = `http://127.0.0.1:${port}`;
    gateway.log = '';
    // What an earlier run in this folder approved is not remembered.
    const memory = join(folder, 'state');
    rmSync(memory, { recursive: true, force: true });
    const environment = { ...process.env, XDG_STATE_HOME: memory, TEAM_TOKEN: 'canary-of-the-environment' };
    gateway.process = spawn(binary, ['serve', '--config', gateway.file, '--listen', `127.0.0.1:${port}`], { env: environment, stdio: ['ignore', 'pipe', 'pipe'] });
    for (const stream of [gateway.process.stdout, gateway.process.stderr]) stream.on('data', (data) => { gateway.log += data; });
    await eventually('the gateway is ready', async () => {
      must(gateway.process.exitCode === null, `the gateway ended:\n${gateway.log}`);
      return fetch(`${gateway.base}/health/ready`).then((response) => response.ok, () => false);
    });
    return gateway;
  }

  write(servers) {
    writeFileSync(this.file, this.head + servers);
  }

  /** Sends a request with the key of `role`. */
  async rest(role, method, path, body) {
    const headers = { authorization: `Bearer ${this.keys[role]}` };
    if (body !== undefined) headers['content-type'] = 'application/json';
    return fetch(`${this.base}/api/v1/mcp${path}`, { method, headers, body: body === undefined ? undefined : JSON.stringify(body) });
  }

  close() {
    this.process.kill('SIGTERM');
  }
}

export async function browser() {
  const executablePath = process.env.CHROMIUM ?? '/usr/bin/chromium';
  return chromium.launch({ executablePath, args: ['--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage', '--force-color-profile=srgb'] });
}

const MEDIA = { html: 'text/html; charset=utf-8', css: 'text/css', js: 'text/javascript', svg: 'image/svg+xml' };

/** Answers with the dashboard's files of a folder, under the headers of the gateway. So a change is seen without a build. */
async function serveFiles(context, { base, files }) {
  const { headers } = await fetch(`${base}/ui/`);
  await context.route(`${base}/ui/*`, (route) => {
    const name = new URL(route.request().url()).pathname.split('/').pop() || 'index.html';
    const path = join(files, name);
    if (!existsSync(path)) return route.fallback();
    return route.fulfill({ headers: { ...Object.fromEntries(headers), 'content-type': MEDIA[name.split('.').pop()] }, body: readFileSync(path) });
  });
}

/** A new visitor. Every error, refused load and request to another place is noted in `problems`. */
export async function visitor(chrome, gateway, problems, options = {}) {
  const context = await chrome.newContext({ viewport: { width: 1440, height: 900 }, reducedMotion: 'reduce', ...options });
  if (gateway.files) await serveFiles(context, gateway);
  const page = await context.newPage();
  page.setDefaultTimeout(15000);
  await page.addInitScript(() => {
    document.addEventListener('securitypolicyviolation', (event) => {
      console.error(`CSP violation: ${event.violatedDirective} ${event.blockedURI} ${event.sourceFile}`);
    });
  });
  page.on('pageerror', (error) => problems.push(`JavaScript error: ${error.stack ?? error}`));
  page.on('console', (message) => {
    // Chromium writes a line for each answer of 400 or more. Those that are wanted are checked where they happen.
    const isStatus = /the server responded with a status of (400|401|403|404|409|502|503)/.test(message.text());
    if (message.type() === 'error' && !isStatus) problems.push(`console: ${message.text()}`);
  });
  page.on('dialog', (dialog) => { problems.push(`a dialog opened: ${dialog.message()}`); dialog.dismiss(); });
  page.on('request', (request) => {
    if (!request.url().startsWith(`${gateway.base}/`)) problems.push(`external request: ${request.url()}`);
  });
  return page;
}

/** Signs in on the page of the gateway, and comes to the dashboard. */
export async function signIn(page, gateway, role) {
  await page.goto(`${gateway.base}/ui/`);
  await page.getByRole('link', { name: 'Sign in' }).first().click();
  await page.getByLabel('Key or token').fill(gateway.keys[role]);
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.getByRole('heading', { name: 'Servers', level: 1 }).waitFor();
}

/** Opens a view by its address. */
export async function open(page, gateway, view) {
  await page.goto(`${gateway.base}/ui/#/${view}`);
  await page.locator('main h1').first().waitFor();
}

/** Answers "yes" in the dialog that asks. */
export async function confirm(page, verb) {
  const box = page.getByRole('dialog');
  await box.getByRole('button', { name: verb, exact: true }).click();
  await box.waitFor({ state: 'detached' });
}

/** What every page must look right on: width, height and theme. */
export const SCREENS = [1440, 390].flatMap((width) => ['light', 'dark'].map((colorScheme) => ({ viewport: { width, height: width === 390 ? 844 : 900 }, colorScheme })));

/** No finding of the accessibility checker that matters, and no scrolling to the side. */
export async function looksRight(page, where) {
  await page.evaluate(axeSource);
  const { violations } = await page.evaluate(() => window.axe.run(document, { resultTypes: ['violations'] }));
  const bad = violations.filter(({ impact }) => impact === 'serious' || impact === 'critical');
  const told = bad.map(({ id, nodes }) => `${id}: ${nodes.slice(0, 3).map((node) => `${node.html} ${node.failureSummary}`).join(' | ')}`);
  must(bad.length === 0, `axe in ${where}: ${told.join('\n')}`);
  const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
  must(wide <= 0, `${where} is ${wide} px too wide`);
}
