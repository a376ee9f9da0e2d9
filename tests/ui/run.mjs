#!/usr/bin/env node
// The dashboard in a real browser. See README.md beside this file.
//
//   run.mjs --binary FILE [--out FOLDER] [--picture FILE] [--files FOLDER] [--check NAME]…
//
// SWITCHYARD_UI is the folder with playwright-core and axe-core. Exit code: 0 every check holds, 1 one does not.

import { mkdirSync, mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { parseArgs } from 'node:util';

import * as attacks from './attacks.mjs';
import * as features from './features.mjs';
import * as flows from './flows.mjs';
import * as looks from './looks.mjs';
import * as operating from './operating.mjs';
import * as people from './people.mjs';
import * as views from './views.mjs';
import { browser, Failed, Gateway } from './lab.mjs';
import { crowd, world } from './world.mjs';

const { values } = parseArgs({ options: { binary: { type: 'string' }, out: { type: 'string' }, picture: { type: 'string' }, files: { type: 'string' }, check: { type: 'string', multiple: true } } });
const out = resolve(values.out ?? mkdtempSync(join(tmpdir(), 'ui-')));
const binary = resolve(values.binary);
const files = values.files && resolve(values.files);
const picture = values.picture && resolve(values.picture);

// The checks of a lane run one after the other, with gateways that no other lane uses. The first lane only waits.
const LANES = {
  idle: { checks: operating.IDLE },
  operator: { few: world, checks: { ...flows.CHECKS, ...operating.CHECKS, ...attacks.CHECKS } },
  features: { few: world, many: crowd, checks: { ...features.CHECKS, ...views.CHECKS, ...people.CHECKS } },
  looks: { few: world, checks: looks.CHECKS },
};
const began = Date.now();
let failed = 0;

/** Runs the checks of a lane that are asked for. */
async function lane(chrome, name, { few, many: crowded, checks: all }) {
  const checks = Object.entries(all).filter(([check]) => !values.check || values.check.includes(check));
  if (checks.length === 0) return;
  const problems = [];
  const open = [];
  const start = async (kind, servers, more = {}) => {
    const folder = join(out, `${name}-${kind}`);
    mkdirSync(folder, { recursive: true });
    open.push(await Gateway.start({ binary, folder, files, ...more }, servers));
    return open.at(-1);
  };
  try {
    const [scene, many] = [await few?.(), await crowded?.()];
    const gateway = scene && await start('few', scene.yaml(), { views: scene.views, bound: scene.bound });
    const big = many && await start('many', many.yaml());
    open.push(...[scene, many].filter(Boolean));
    for (const [check, run] of checks) {
      const started = Date.now();
      try {
        const told = await run({ chrome, gateway, big, scene, many, problems, out, binary, picture });
        if (problems.length > 0) throw new Failed(problems.splice(0).join('\n    '));
        console.log(`ok      ${check} (${((Date.now() - started) / 1000).toFixed(1)} s)${told ? `: ${told}` : ''}`);
      } catch (error) {
        failed += 1;
        const more = problems.splice(0).map((problem) => `\n    ${problem}`).join('');
        console.log(`FAILED  ${check}: ${error instanceof Failed ? error.message : error.stack}${more}`);
      }
    }
  } catch (error) {
    failed += 1;
    console.log(`FAILED  ${name} did not start: ${error.stack}`);
  } finally {
    for (const one of open) one.close();
  }
}

const chrome = await browser();
try {
  await Promise.all(Object.entries(LANES).map(([name, checks]) => lane(chrome, name, checks)));
  // What is held against the clock runs alone.
  await lane(chrome, 'alone', { few: world, many: crowd, checks: { ...features.ALONE, ...looks.ALONE } });
} finally {
  await chrome.close();
}
console.log(`${failed === 0 ? 'all checks hold' : `${failed} failed`}, ${((Date.now() - began) / 1000).toFixed(0)} s, pictures in ${out}`);
process.exit(failed === 0 ? 0 : 1);
