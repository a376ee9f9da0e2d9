// Draws all pictures of the documentation, or checks that the committed ones are current: scripts/pictures.

import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';

import { cast } from './cast.mjs';
import { processor, rate } from './chart.mjs';
import { graph } from './graph.mjs';

const IMAGES = 'docs/images';
const { instance } = createRequire(join(process.env.SWITCHYARD_PICTURES, 'package.json'))('@viz-js/viz');

const viz = await instance();
const performance = readFileSync('docs/performance.md', 'utf8');
const pictures = { 'performance-rate.svg': rate(performance), 'performance-cpu.svg': processor(performance) };
for (const name of readdirSync(IMAGES).sort()) {
  const source = readFileSync(join(IMAGES, name), 'utf8');
  if (name.endsWith('.dot')) pictures[name.replace('.dot', '.svg')] = graph(viz, source);
  if (name.endsWith('.cast.txt')) pictures[name.replace('.cast.txt', '.svg')] = cast(source);
}

const isCheck = process.argv.includes('--check');
const old = Object.entries(pictures).filter(([name, drawn]) => !existsSync(join(IMAGES, name)) || readFileSync(join(IMAGES, name), 'utf8') !== drawn);
const foreign = readdirSync(IMAGES).filter((name) => name.endsWith('.svg') && !(name in pictures));
if (!isCheck) for (const [name, drawn] of old) writeFileSync(join(IMAGES, name), drawn);
for (const [name] of old) console.log(`${join(IMAGES, name)} ${isCheck ? 'is not current: run scripts/pictures' : 'was drawn'}`);
for (const name of foreign) console.log(`${join(IMAGES, name)} has no source`);
process.exitCode = foreign.length > 0 || (isCheck && old.length > 0) ? 1 : 0;
