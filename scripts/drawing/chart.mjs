// Bars from the table of docs/performance.md: what benches/summary.py wrote there.

import { escape, SANS, style } from './theme.mjs';

const [LABEL, PLOT, ROW, TOP] = [300, 340, 26, 46];

const RULES = `text{font:12px ${SANS};fill:var(--ink)}.paper{fill:var(--paper)}.bar{fill:var(--accent)}
.range{stroke:var(--ink);stroke-width:1.5}.axis{stroke:var(--line);stroke-dasharray:2 3}.bare{stroke:var(--good);stroke-width:1.5}
.faint{fill:var(--faint)}.end{text-anchor:end}.middle{text-anchor:middle}
`;

/** The rows of the table: the call, and the numbers of each cell. */
function rows(page) {
  const table = page.split('<!-- written by benches/summary.py -->')[1].split('<!-- end -->')[0];
  const lines = table.trim().split('\n').slice(2).map((line) => line.split('|').slice(1, -1).map((cell) => cell.trim()));
  return lines.map(([call, ...cells]) => ({ call, cells: cells.map((cell) => cell.match(/[\d.,]+/g).map((number) => Number(number.replaceAll(',', '')))) }));
}

/** One bar for each row, on an axis that begins at 0. A value beyond `most` ends at the edge with an arrow. */
function bars(title, unit, values, most, ticks) {
  const height = TOP + values.length * ROW + 34;
  const x = (value) => LABEL + (Math.min(value, most) / most) * PLOT;
  const lines = ticks.map((tick) => `<line class="${tick === 1 ? 'bare' : 'axis'}" x1="${x(tick)}" x2="${x(tick)}" y1="${TOP - 6}" y2="${height - 28}"/><text class="faint middle" x="${x(tick)}" y="${height - 12}">${tick}</text>`);
  const drawn = values.map(({ call, value, low, high }, at) => {
    const y = TOP + at * ROW;
    const range = low === undefined ? '' : `<line class="range" x1="${x(low)}" x2="${x(high)}" y1="${y + 8}" y2="${y + 8}"/>${high > most ? `<text x="${x(most) + 2}" y="${y + 12}">→ ${high}</text>` : ''}`;
    const number = `<text class="end" x="${LABEL + PLOT + 90}" y="${y + 12}">${value.toFixed(2)}</text>`;
    return `<text class="end" x="${LABEL - 8}" y="${y + 12}">${escape(call)}</text><rect class="bar" x="${LABEL}" y="${y}" width="${(x(value) - LABEL).toFixed(1)}" height="16" rx="2"/>${range}${number}`;
  });
  const width = LABEL + PLOT + 110;
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" role="img">
${style(RULES)}<rect class="paper" width="${width}" height="${height}"/>
<text x="${LABEL}" y="18" font-weight="bold">${escape(title)}</text><text class="faint" x="${LABEL}" y="34">${escape(unit)}</text>
${[...lines, ...drawn].join('\n')}
</svg>
`;
}

export const rate = (page) => bars('Calls per second', 'share of the bare hop (1), with the lowest and the highest round', rows(page).map(({ call, cells: [[value, low, high]] }) => ({ call, value, low, high })), 1.5, [0, 0.5, 1, 1.5]);
export const processor = (page) => bars('CPU time of a call', 'multiple of the bare hop (1)', rows(page).map(({ call, cells: [, [value]] }) => ({ call, value })), 2, [0, 0.5, 1, 1.5, 2]);
