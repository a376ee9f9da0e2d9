// Builds elements. Every text becomes a text node, so no text of a server can become markup.

import { INVISIBLE } from './invisible.js';

const SVG = 'http://www.w3.org/2000/svg';
/** Items of a long list that are made at a time. */
const STEP = 100;

function escaped(c) {
  return c === '\r' ? '\\r' : `\\u{${c.codePointAt(0).toString(16)}}`;
}

/** Returns `text` with invisible characters as escapes, as the command line shows it. Line ends and tabs stay. */
export function visible(text) {
  return String(text).replaceAll('\r\n', '\n').replace(INVISIBLE, escaped);
}

function append(element, children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : document.createTextNode(visible(child)));
  }
  return element;
}

/** Makes an element. `props` are attributes, and listeners as `onclick`. */
export function h(name, props = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(props ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === 'function') element.addEventListener(key.slice(2), value);
    else if (key === 'value') element.value = value;
    else element.setAttribute(key, value === true ? '' : visible(value));
  }
  return append(element, children);
}

/** Makes an element of a picture. */
export function svg(name, props = {}, ...children) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(props)) element.setAttribute(key, value);
  return append(element, children);
}

/** Replaces what `element` contains. */
export function fill(element, ...children) {
  element.replaceChildren();
  return append(element, children);
}

/** Replaces what `element` contains, but only if `key` is another one than last time. */
export function fillIfChanged(element, key, make) {
  if (element.dataset.key === key) return;
  const focused = element.contains(document.activeElement) ? document.activeElement.dataset.focus : undefined;
  const opened = new Set([...element.querySelectorAll('details[open][data-details]')].map((one) => one.dataset.details));
  fill(element, make());
  element.dataset.key = key;
  for (const one of element.querySelectorAll('details[data-details]')) one.open = opened.has(one.dataset.details);
  if (focused !== undefined) {
    [...element.querySelectorAll('[data-focus]')].find((one) => one.dataset.focus === focused)?.focus();
  }
}

/** Tells a screen reader. */
export function announce(text, isUrgent = false) {
  const region = document.getElementById(isUrgent ? 'assertive' : 'polite');
  region.textContent = '';
  setTimeout(() => { region.textContent = visible(text); }, 30);
}

/** A short notice that goes away by itself. */
export function toast(text, kind = 'good') {
  const box = h('div', { class: `toast ${kind}` }, text);
  document.getElementById('toasts').append(box);
  announce(text, kind === 'bad');
  setTimeout(() => box.remove(), kind === 'bad' ? 12000 : 6000);
}

/** A button. */
export function button(text, onclick, props = {}) {
  return h('button', { type: 'button', onclick, ...props }, text);
}

let fields = 0;

/** A field of a form: `input` with its label and, if there is one, its help. */
export function field(title, input, help) {
  fields += 1;
  const id = `field-${fields}`;
  input.id = id;
  if (help) input.setAttribute('aria-describedby', `${id}-help`);
  return h('div', { class: 'field' }, h('label', { for: id }, title), input, help && h('p', { class: 'help', id: `${id}-help` }, help));
}

/** Copies `text`, or else selects `box`, which shows it. Returns whether it is copied: without TLS a browser lets no page do that. */
export async function copied(text, box) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    getSelection().selectAllChildren(box);
    return false;
  }
}

/** A text to copy, with its title and its button. */
export function copyBlock(title, text) {
  const box = h('pre', { class: 'code wrap', tabindex: '0', role: 'region', 'aria-label': title }, text);
  const said = h('span', { class: 'quiet small', role: 'status' });
  const copy = async () => fill(said, await copied(text, box) ? 'copied' : 'selected: copy it with the keyboard');
  return h('section', { class: 'command' }, h('div', { class: 'command-head' }, h('h3', {}, title), said, button('Copy', copy, { class: 'small', 'aria-label': `Copy ${title}` })), box);
}

/** Buttons of which one is chosen. `options` are `[value, word, count]`; `pick` gets the value of the one that is pressed. */
export function choices(label, options, chosen, pick) {
  const choice = ([value, word, count]) => button([word, count !== undefined && h('span', { class: 'of-choice' }, number(count))], () => pick(value),
    { class: 'choice', 'aria-pressed': String(value === chosen), 'data-focus': `${label} ${value}` });
  return h('div', { class: 'choices', role: 'group', 'aria-label': label }, options.map(choice));
}

/** Adds what `make` makes of each item to `box`, some at a time, so that the page answers meanwhile. Returns the function that ends it. */
export function addInSteps(box, items, make, done = () => {}) {
  let [at, frame] = [0, 0];
  const step = () => {
    append(box, items.slice(at, at + STEP).map((item) => make(item)));
    at += STEP;
    if (at < items.length) frame = requestAnimationFrame(step);
    else done();
  };
  step();
  return () => cancelAnimationFrame(frame);
}

/** A word with a color and a shape, so that the color is not needed. */
export function badge(text, kind) {
  return h('span', { class: `badge ${kind}` }, h('span', { class: 'dot', 'aria-hidden': 'true' }), text);
}

/** The first line of a view. */
export function heading(title, about, ...actions) {
  return h('div', { class: 'heading' }, h('div', {}, h('h1', {}, title), about && h('p', { class: 'quiet' }, about)),
    actions.length > 0 && h('div', { class: 'actions' }, actions));
}

/** A table that scrolls by itself on a narrow screen. */
export function table(label, columns, rows) {
  const head = h('tr', {}, columns.map((column) => h('th', { scope: 'col', class: column.kind }, column.title ?? column)));
  return h('div', { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': label },
    h('table', {}, h('caption', { class: 'hidden' }, label), h('thead', {}, head), h('tbody', {}, rows)));
}

/** A JSON value as text. */
export function json(value, label) {
  return h('pre', { class: 'code', tabindex: '0', role: 'region', 'aria-label': label }, JSON.stringify(value, null, 2));
}

/** A duration in the unit that reads best. */
export function duration(ms) {
  if (ms === null || ms === undefined || Number.isNaN(ms)) return '–';
  if (ms < 1) return `${ms.toFixed(2)} ms`;
  if (ms < 1000) return `${ms < 10 ? ms.toFixed(1) : Math.round(ms)} ms`;
  return ms < 60000 ? `${(ms / 1000).toFixed(1)} s` : `${(ms / 60000).toFixed(1)} min`;
}

/** A number of bytes. */
export function bytes(count) {
  const units = ['B', 'KiB', 'MiB', 'GiB'];
  let at = 0;
  while (count >= 1024 && at < units.length - 1) { count /= 1024; at += 1; }
  return `${count < 10 && at > 0 ? count.toFixed(1) : Math.round(count)} ${units[at]}`;
}

/** A number with separators. */
export function number(count) {
  return Number(count ?? 0).toLocaleString('en-US');
}

/** A number of things. */
export function counted(count, thing) {
  return `${number(count)} ${thing}${count === 1 ? '' : 's'}`;
}

/** A date in RFC 3339 as local time, with the day unless it is today. */
export function date(at) {
  const [time, now] = [new Date(at), new Date()];
  if (Number.isNaN(time.getTime()) || time.toDateString() === now.toDateString()) return clock(at);
  return `${time.toLocaleDateString('en-GB', { day: 'numeric', month: 'short' })} ${clock(at)}`;
}

/** The time of day of a date in RFC 3339. */
export function clock(at) {
  const date = new Date(at);
  return Number.isNaN(date.getTime()) ? String(at ?? '') : date.toLocaleTimeString('en-GB');
}
