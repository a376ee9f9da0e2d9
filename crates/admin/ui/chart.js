// Small line charts.

import { h, svg, number } from './dom.js';

const [WIDTH, HEIGHT] = [120, 28];
/** Steps of a picture at least, so that the first points do not look like a trend. */
const FEWEST = 14;

function points(values, most) {
  const step = WIDTH / Math.max(FEWEST, values.length - 1);
  const first = WIDTH - (values.length - 1) * step;
  const runs = [];
  let run = [];
  for (const [at, value] of values.entries()) {
    if (value === null) { if (run.length) runs.push(run); run = []; continue; }
    run.push(`${(first + at * step).toFixed(1)},${(HEIGHT - 2 - (value / most) * (HEIGHT - 4)).toFixed(1)}`);
  }
  if (run.length) runs.push(run);
  return runs;
}

/** Lines of the last 15 minutes. `lines` are `{values, kind}`; `label` says the same in words. */
export function sparkline(lines, label) {
  const all = lines.flatMap((line) => line.values).filter((value) => value !== null);
  const most = Math.max(1e-9, ...all);
  const picture = svg('svg', { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, class: 'spark', role: 'img', 'aria-label': label, preserveAspectRatio: 'none' });
  picture.append(svg('line', { x1: 0, x2: WIDTH, y1: HEIGHT - 2, y2: HEIGHT - 2, class: 'base' }));
  for (const { values, kind } of lines) {
    for (const run of points(values, most)) {
      // One point is a line without length, which its round ends make visible.
      picture.append(svg('polyline', { points: (run.length === 1 ? [...run, ...run] : run).join(' '), class: `line ${kind}` }));
    }
  }
  return picture;
}

/** A bar with its value in words. */
export function meter(label, used, limit, text) {
  const part = limit > 0 ? Math.min(1, used / limit) : 0;
  const fillWidth = Math.max(part > 0 ? 1 : 0, part * 100);
  const bar = svg('svg', { viewBox: '0 0 100 6', class: 'meter', preserveAspectRatio: 'none', 'aria-hidden': 'true' });
  bar.append(svg('rect', { x: 0, y: 0, width: 100, height: 6, rx: 3, class: 'rest' }),
    svg('rect', { x: 0, y: 0, width: fillWidth, height: 6, rx: 3, class: part > 0.9 ? 'full' : 'used' }));
  return h('div', { class: 'fact' }, h('dt', {}, label), h('dd', {}, text ?? `${number(used)} of ${number(limit)}`, bar));
}
