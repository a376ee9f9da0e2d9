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
mkdirSync(out, { recursive: true });

const CHECKS = { ...flows.CHECKS, ...operating.CHECKS, ...attacks.CHECKS, ...features.CHECKS, ...views.CHECKS, ...people.CHECKS, ...looks.CHECKS };
const began = Date.now();
const problems = [];
const scene = await world();
const many = await crowd();
let chrome;
let gateway;
let big;
let failed = 0;
try {
  const start = (name, servers, more = {}) => {
    const folder = join(out, name);
    mkdirSync(folder, { recursive: true });
    return Gateway.start({ binary: resolve(values.binary), folder, files: values.files && resolve(values.files), ...more }, servers);
  };
  [gateway, big] = await Promise.all([start('few', scene.yaml(), { views: scene.views, bound: scene.bound }), start('many', many.yaml())]);
  chrome = await browser();
  for (const [name, check] of Object.entries(CHECKS)) {
    if (values.check && !values.check.includes(name)) continue;
    const started = Date.now();
    let told;
    try {
      told = await check({ chrome, gateway, big, scene, many, problems, out, binary: resolve(values.binary), picture: values.picture && resolve(values.picture) });
      if (problems.length > 0) throw new Failed(problems.splice(0).join('\n    '));
      console.log(`ok      ${name} (${((Date.now() - started) / 1000).toFixed(1)} s)${told ? `: ${told}` : ''}`);
    } catch (error) {
      failed += 1;
      const more = problems.splice(0).map((problem) => `\n    ${problem}`).join('');
      console.log(`FAILED  ${name}: ${error instanceof Failed ? error.message : error.stack}${more}`);
    }
  }
} finally {
  await chrome?.close();
  for (const one of [gateway, big]) one?.stop();
  for (const one of [scene, many]) one.close();
}
console.log(`${failed === 0 ? 'all checks hold' : `${failed} failed`}, ${((Date.now() - began) / 1000).toFixed(0)} s, pictures in ${out}`);
process.exit(failed === 0 ? 0 : 1);
