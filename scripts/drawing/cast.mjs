// An animated terminal from a recorded session: a text in which a line that begins with `$ ` was typed. A blank line stands
// before each command, and each command has a screen of its own.

import { escape, MONO, style } from './theme.mjs';

const [WIDTH, LINE, LEFT, TOP] = [7.8, 19, 16, 44];
/** Where the terminal breaks a line. */
const COLUMNS = 96;
/** Seconds: for a typed letter, before the output, and for reading a line of it. */
const [LETTER, PAUSE, READING] = [0.035, 0.4, 0.3];

const RULES = `text{font:13px ${MONO};fill:var(--ink);white-space:pre}
.paper{fill:var(--paper);stroke:var(--line)}.typed{fill:var(--accent)}.dot{fill:var(--line)}
.added{fill:var(--good)}
`;

/** Splits a session into its commands, each with the lines of its output. */
function commands(session) {
  const found = [];
  for (const line of session.trimEnd().split('\n')) {
    if (line.startsWith('$ ')) found.push({ typed: line, output: [] });
    else found.at(-1).output.push(...(line.match(new RegExp(`.{1,${COLUMNS}}`, 'g')) ?? ['']));
  }
  for (const { output } of found) while (output.at(-1) === '') output.pop();
  return found;
}

/** The rules that show one class from `from` to `to` of `all` seconds, again and again. */
function shown(name, from, to, all) {
  const percent = (time) => `${((time / all) * 100).toFixed(2)}%`;
  const start = from === 0 ? '0%{opacity:1}' : `0%,${percent(from - 0.001)}{opacity:0}${percent(from)}{opacity:1}`;
  const end = to >= all ? '100%{opacity:1}' : `${percent(to - 0.001)}{opacity:1}${percent(to)},100%{opacity:0}`;
  return `@keyframes ${name}{${start}${end}}.${name}{animation:${name} ${all.toFixed(1)}s step-end infinite}\n`;
}

/** Draws `session`. Without motion, the last command stays. */
export function cast(session) {
  const screens = commands(session);
  const columns = Math.max(...screens.flatMap(({ typed, output }) => [typed, ...output].map((line) => line.length)));
  const rows = Math.max(...screens.map(({ output }) => output.length)) + 1;
  const [width, height] = [Math.ceil(columns * WIDTH + 2 * LEFT), TOP + rows * LINE + 8];
  const lengths = screens.map(({ typed, output }) => typed.length * LETTER + PAUSE + 1.5 + output.length * READING);
  const all = lengths.reduce((sum, length) => sum + length, 0);
  let [begun, rules, body] = [0, RULES, ''];
  screens.forEach(({ typed, output }, index) => {
    const end = begun + lengths[index];
    const row = (line, at, kind) => `<text class="${kind}" x="${LEFT}" y="${TOP + at * LINE}">${escape(line)}</text>`;
    const kind = (line) => (/^\+(?!\+)/.test(line) ? 'added' : 'output');
    rules += shown(`c${index}`, begun, end, all) + shown(`o${index}`, begun + typed.length * LETTER + PAUSE, end, all);
    const step = (typed.length - 2) * LETTER;
    const cover = `<rect class="typing" fill="var(--paper)" x="${LEFT + 2 * WIDTH}" y="${TOP - 15}" width="${columns * WIDTH}" height="${LINE}"/>`;
    rules += `@keyframes t${index}{0%,${((begun / all) * 100).toFixed(2)}%{transform:none}${(((begun + step) / all) * 100).toFixed(2)}%,100%{transform:translateX(${Math.ceil(typed.length * WIDTH)}px)}}.t${index}{animation:t${index} ${all.toFixed(1)}s linear infinite}\n`;
    const result = output.map((line, at) => row(line, at + 1, kind(line))).join('\n');
    body += `<g class="c${index}">${row(typed, 0, 'typed')}<g class="t${index}">${cover}</g><g class="o${index}">${result}</g></g>\n`;
    begun = end;
  });
  const still = screens.slice(0, -1).map((_, index) => `.c${index}`).join();
  rules += `@media (prefers-reduced-motion:reduce){*{animation:none!important}${still}{opacity:0}.typing{display:none}}\n`;
  const dots = [0, 1, 2].map((at) => `<circle class="dot" cx="${20 + at * 18}" cy="16" r="5"/>`).join('');
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" role="img">
${style(rules)}<clipPath id="screen"><rect x="1" y="1" width="${width - 2}" height="${height - 2}" rx="8"/></clipPath>
<rect class="paper" x="0.5" y="0.5" width="${width - 1}" height="${height - 1}" rx="8"/>${dots}
<g clip-path="url(#screen)">${body}</g></svg>
`;
}
