// Charts of the last 15 minutes: small ones for lists, and large ones with axes, legend and a reading for each moment.

import { SPAN_MS } from './state.js';
import { clock, fill, h, svg, number } from './dom.js';

const MINUTES = SPAN_MS / 60000;

/** The parts of a line without gaps, as points of a picture. A value of `most` is at the top. */
function runs({ at, values }, most, { width, height, now }) {
  const found = [];
  let run = [];
  for (const [index, value] of values.entries()) {
    if (value === null) { if (run.length) found.push(run); run = []; continue; }
    const x = Math.max(0, width * (1 - (now - at[index]) / SPAN_MS));
    run.push(`${x.toFixed(1)},${(height - 1 - (value / most) * (height - 2)).toFixed(1)}`);
  }
  if (run.length) found.push(run);
  // One point is a line without length, which its round ends make visible.
  return found.map((points) => (points.length === 1 ? [...points, ...points] : points).join(' '));
}

function greatest(lines) {
  return Math.max(0, ...lines.flatMap(({ values }) => values).filter((value) => value !== null));
}

function polylines(lines, most, size) {
  // The first line is the one on top.
  return lines.toReversed().flatMap((line) => runs(line, most, size).map((points) => svg('polyline', { points, class: `line ${line.kind}` })));
}

/** Lines without axes. `lines` are `{at, values, kind}`; `label` says the same in words. */
export function sparkline(lines, label) {
  const size = { width: 120, height: 28, now: Date.now() };
  const picture = svg('svg', { viewBox: `0 0 ${size.width} ${size.height}`, class: 'spark', role: 'img', 'aria-label': label, preserveAspectRatio: 'none' });
  picture.append(svg('line', { x1: 0, x2: size.width, y1: size.height - 1, y2: size.height - 1, class: 'base' }));
  const most = greatest(lines);
  if (most > 0) picture.append(...polylines(lines, most, size));
  return picture;
}

/** The next of 1, 2, 5, 10, 20, … that is not below `value`. */
function roundedUp(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map((part) => part * power).find((round) => round >= value * 0.999);
}

/**
 * A chart with axes. `series` are `{key, name, kind}`, where `key` names a list of the history; `format` prints a value with
 * its unit, `least` is the smallest top of the axis, and `none` says that there is nothing to see. Pointer, finger and arrow keys read the values of a moment.
 */
export function chart({ title, unit, series, format, least, none }) {
  const size = { width: 600, height: 120, now: 0 };
  const picture = svg('svg', { viewBox: `0 0 ${size.width} ${size.height}`, preserveAspectRatio: 'none', 'aria-hidden': 'true' });
  const axis = h('div', { class: 'y-axis', 'aria-hidden': 'true' });
  const nothing = h('p', { class: 'nothing' }, none);
  const values = series.map(() => h('span', { class: 'value' }));
  const moment = h('span', { class: 'moment' });
  const plot = h('div', { class: 'plot', tabindex: '0', role: 'slider', 'aria-label': `${title}, the last ${MINUTES} minutes`, 'aria-valuemin': '0', 'aria-readonly': 'true' }, picture, nothing);
  const element = h('figure', { class: 'chart' },
    h('figcaption', {}, h('span', { class: 'chart-title' }, title), h('span', { class: 'quiet' }, unit)),
    h('div', { class: 'legend' }, series.map(({ name, kind }, at) => h('span', { class: 'key' }, h('span', { class: `swatch ${kind}`, 'aria-hidden': 'true' }), name, values[at])), moment),
    axis, plot,
    h('div', { class: 'x-axis', 'aria-hidden': 'true' }, [3, 2, 1].map((third) => h('span', {}, `−${(MINUTES * third) / 3} min`)), h('span', {}, 'now')));
  let lists = { at: [] };
  let chosen = null; // the moment that is read; null is now

  const read = () => {
    const last = lists.at.length - 1;
    const index = chosen === null ? last : nearest(chosen);
    const said = series.map(({ key, name }, at) => {
      const value = lists[key]?.[index] ?? null;
      fill(values[at], value === null ? '–' : format(value));
      return `${name} ${value === null ? 'none' : format(value)}`;
    });
    const when = chosen === null || index < 0 ? 'now' : clock(lists.at[index]);
    fill(moment, when);
    plot.setAttribute('aria-valuemax', String(Math.max(0, last)));
    plot.setAttribute('aria-valuenow', String(Math.max(0, index)));
    plot.setAttribute('aria-valuetext', `${when}: ${said.join(', ')}`);
    picture.querySelector('.cursor')?.remove();
    if (chosen === null || index < 0) return;
    const x = size.width * (1 - (size.now - lists.at[index]) / SPAN_MS);
    picture.append(svg('line', { x1: x, x2: x, y1: 0, y2: size.height, class: 'cursor' }));
  };
  const nearest = (time) => lists.at.reduce((best, at, index) => (Math.abs(at - time) < Math.abs(lists.at[best] - time) ? index : best), 0);
  const choose = (time) => { chosen = time; read(); };
  const point = ({ clientX }) => {
    const { left, width } = plot.getBoundingClientRect();
    choose(size.now - SPAN_MS * (1 - (clientX - left) / width));
  };
  const step = (event) => {
    const last = lists.at.length - 1;
    const now = chosen === null ? last : nearest(chosen);
    const to = { ArrowLeft: now - 1, ArrowDown: now - 1, ArrowRight: now + 1, ArrowUp: now + 1, PageUp: now + 20, PageDown: now - 20, Home: 0, End: last }[event.key];
    if (to === undefined || last < 0) return;
    event.preventDefault();
    choose(to >= last ? null : lists.at[Math.max(0, to)]);
  };
  plot.addEventListener('pointermove', point);
  plot.addEventListener('pointerdown', point);
  plot.addEventListener('pointerleave', () => choose(null));
  plot.addEventListener('blur', () => choose(null));
  plot.addEventListener('keydown', step);

  /** Draws `history`. */
  const update = (history) => {
    lists = history;
    size.now = Date.now();
    const lines = series.map(({ key, kind }) => ({ at: history.at, values: history[key], kind }));
    const most = roundedUp(Math.max(least, greatest(lines)));
    fill(axis, [1, 0.5, 0].map((part) => h('span', {}, part === 0 ? '0' : format(most * part))));
    picture.replaceChildren(...[1, 0.5, 0].map((part) => {
      const y = size.height - 1 - part * (size.height - 2);
      return svg('line', { x1: 0, x2: size.width, y1: y, y2: y, class: part === 0 ? 'base' : 'grid' });
    }), ...polylines(lines, most, size));
    nothing.hidden = greatest(lines) > 0;
    read();
  };
  return { element, update };
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
