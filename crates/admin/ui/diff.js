// The difference of two JSON values, line by line.

import { h } from './dom.js';

const MOST_LINES = 2000;
/** Equal lines that are shown around a change. */
const CONTEXT = 3;
/** Begins the second and each later line of a text. No line of JSON begins like this, so a text cannot look like other members. */
const WITHIN = '      │ ';

/** Prints a value with sorted keys, so that the order does not count. */
export function lines(value) {
  return JSON.stringify(sorted(value), null, 2).split('\n').flatMap(unfolded);
}

function sorted(value) {
  if (Array.isArray(value)) return value.map(sorted);
  if (value === null || typeof value !== 'object') return value;
  return Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1)).map(([key, one]) => [key, sorted(one)]));
}

// A long text is one line of JSON. It is shown with its own line breaks.
function unfolded(line) {
  const parts = line.replace(/\\(.)/g, (pair, sign) => (sign === 'n' ? '\n' : pair)).split('\n');
  return parts.map((part, at) => (at === 0 ? part : WITHIN + part));
}

/** The steps `[kind, line]` from `before` to `after`: ' ' for both, '-' and '+'. */
export function steps(before, after) {
  if (before.length * after.length > MOST_LINES * MOST_LINES) {
    return [...before.map((line) => ['-', line]), ...after.map((line) => ['+', line])];
  }
  const width = after.length + 1;
  const table = new Uint32Array((before.length + 1) * width);
  for (let i = before.length - 1; i >= 0; i -= 1) {
    for (let j = after.length - 1; j >= 0; j -= 1) {
      table[i * width + j] = before[i] === after[j]
        ? table[(i + 1) * width + j + 1] + 1
        : Math.max(table[(i + 1) * width + j], table[i * width + j + 1]);
    }
  }
  const all = [];
  let [i, j] = [0, 0];
  while (i < before.length || j < after.length) {
    if (i < before.length && j < after.length && before[i] === after[j]) { all.push([' ', before[i]]); i += 1; j += 1; }
    else if (i < before.length && (j === after.length || table[(i + 1) * width + j] >= table[i * width + j + 1])) { all.push(['-', before[i]]); i += 1; }
    else { all.push(['+', after[j]]); j += 1; }
  }
  return all;
}

const WORDS = { '-': 'removed', '+': 'added' };

function row([kind, line]) {
  const name = WORDS[kind];
  const mark = h('span', { class: 'mark' }, kind, name && h('span', { class: 'hidden' }, ` ${name}: `));
  return h(name === 'added' ? 'ins' : name === 'removed' ? 'del' : 'span', { class: 'row' }, mark, line);
}

/** Shows the steps, without the middle of long equal parts. */
function rows(all) {
  const shown = [];
  for (let at = 0; at < all.length; at += 1) {
    let end = at;
    while (end < all.length && all[end][0] === ' ') end += 1;
    if (end - at > 2 * CONTEXT + 2) {
      const [first, last] = [at === 0 ? 1 : at + CONTEXT, end === all.length ? end - 1 : end - CONTEXT];
      shown.push(...all.slice(at, first).map(row), h('span', { class: 'fold' }, `⋯ ${last - first} equal lines`), ...all.slice(last, end).map(row));
      at = end - 1;
    } else {
      shown.push(row(all[at]));
    }
  }
  return shown;
}

/** Shows the difference of two values; null is none. */
export function difference(before, after, label) {
  const [old, now] = [before, after].map((value) => (value === null ? [] : lines(value)));
  return h('pre', { class: 'code diff', tabindex: '0', role: 'region', 'aria-label': label }, rows(steps(old, now)));
}

/** Shows a value, with the lines of its `members` marked. */
export function marked(value, members, label) {
  const rows = Object.entries(value).flatMap(([key, one]) => {
    const text = lines({ [key]: one }).slice(1, -1);
    return text.map((line) => row([members.includes(key) ? '+' : ' ', line]));
  });
  return h('pre', { class: 'code diff', tabindex: '0', role: 'region', 'aria-label': label }, rows);
}
