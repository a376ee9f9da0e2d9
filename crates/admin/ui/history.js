// View: the last calls, found by server, tool, principal, outcome and time.

import { may, pastCalls } from './api.js';
import { told } from './actions.js';
import { callTable, detail, outcome, outcomes } from './calls.js';
import { announce, button, counted, date, duration, fill, h, heading, toast } from './dom.js';
import { state } from './state.js';

const PAGE = 100;
/** Calls of an exported file at most. */
const MOST = 20000;
const TIMES = { '15m': 'Last 15 minutes', '1h': 'Last hour', '1d': 'Last day', '7d': 'Last 7 days', '': 'All' };
const COLUMNS = ['id', 'at', 'server', 'tool', 'outcome', 'code', 'error', 'duration_ms', 'attempts', 'principal', 'client', 'request_id', 'call', 'arguments'];

function select(label, options, value) {
  return h('select', { 'aria-label': label }, options.map(([key, word]) => h('option', { value: key, selected: key === value }, word)));
}

function search(label, props = {}) {
  return h('input', { type: 'search', placeholder: label, 'aria-label': label, class: 'filter short', ...props });
}

function row(call) {
  const open = button(call.tool, () => detail(call), { class: 'link' });
  const why = call.error && h('p', { class: 'quiet small clip', title: call.error }, call.error);
  return h('tr', {}, h('td', { class: 'time' }, date(call.at)), h('td', {}, outcome(call)), h('td', {}, open, h('p', { class: 'quiet small phone-only' }, `${date(call.at)} · ${call.server}`), why), h('td', { class: 'wide' }, call.server),
    h('td', { class: 'wide' }, call.principal), h('td', { class: 'right' }, duration(call.duration_ms)));
}

/** All calls that `query` finds, the newest first, at most `most`. */
async function all(query, most) {
  const calls = [];
  let cursor = null;
  do {
    const page = await pastCalls({ ...query, limit: 1000 }, cursor);
    calls.push(...page.calls);
    cursor = page.next_cursor;
  } while (cursor && calls.length < most);
  return calls.slice(0, most);
}

/** A value as a cell of CSV. A program that opens the file takes none for a formula. */
function cell(value) {
  const text = value === null || value === undefined ? '' : typeof value === 'object' ? JSON.stringify(value) : String(value);
  const plain = typeof value === 'string' && /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
  return /[",\n\r]/.test(plain) ? `"${plain.replaceAll('"', '""')}"` : plain;
}

const FORMATS = {
  json: { word: 'JSON', ending: 'jsonl', media: 'application/jsonl', text: (calls) => calls.map((call) => `${JSON.stringify(call)}\n`).join('') },
  csv: { word: 'CSV', ending: 'csv', media: 'text/csv', text: (calls) => [COLUMNS, ...calls.map((call) => COLUMNS.map((name) => (name === 'attempts' ? call.attempts?.length : call[name])))].map((line) => `${line.map(cell).join(',')}\r\n`).join('') },
};

function save(calls, { ending, media, text }) {
  const url = URL.createObjectURL(new Blob([text(calls)], { type: media }));
  const link = h('a', { href: url, download: `switchyard-history.${ending}` });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
}

/** Shows the view, with the calls of the server `name` if there is one. */
export function show(main, name) {
  const names = new Set([...(state.servers ?? []).map((server) => server.name), ...(name ? [name] : [])]);
  const time = select('Time', Object.entries(TIMES), '1d');
  const kind = select('Outcome', [['', 'All outcomes'], ['failures', 'Failures'], ...outcomes], '');
  const server = select('Server', [['', 'All servers'], ...[...names].map((one) => [one, one])], name ?? '');
  const tool = search('Tool', { 'data-filter': true });
  const principal = may('superuser') && search('Principal');
  const list = h('div', {});
  const more = button('Older calls', () => load(true), { hidden: true });
  const refresh = button('Refresh', () => load(false));
  let [calls, cursor, turn] = [[], null, 0];
  const query = () => {
    const chosen = { server: server.value, tool: tool.value.trim(), principal: principal ? principal.value.trim() : '', since: time.value,
      failed: kind.value === 'failures' ? 'true' : '', outcome: kind.value === 'failures' ? '' : kind.value };
    return Object.fromEntries(Object.entries(chosen).filter(([, value]) => value !== ''));
  };
  const draw = () => {
    const none = h('p', { class: 'empty' }, cursor ? 'None among the newest calls. Look at older ones.' : 'No call is like that.');
    fill(list, calls.length > 0 ? callTable(calls.map(row)) : none);
    more.hidden = !cursor;
  };
  const load = async (isMore) => {
    const mine = turn += 1;
    if (!isMore) [calls, cursor] = [[], null];
    try {
      const page = await pastCalls({ ...query(), limit: PAGE }, cursor);
      if (mine !== turn) return;
      calls = [...calls, ...page.calls];
      cursor = page.next_cursor ?? null;
      draw();
      announce(`${counted(calls.length, 'call')} shown`);
    } catch (error) {
      if (mine !== turn) return;
      more.hidden = true;
      fill(list, h('p', { class: error.status === 404 ? 'empty' : 'problem' }, told(error)));
    }
  };
  const exporting = ([, format]) => {
    const start = button(`Export ${format.word}`, async () => {
      start.disabled = true;
      try {
        const found = await all(query(), MOST);
        save(found, format);
        toast(found.length === MOST ? `the last ${MOST} calls are exported` : `${counted(found.length, 'call')} exported`);
      } catch (error) {
        toast(error.message, 'bad');
      } finally {
        start.disabled = false;
      }
    });
    return start;
  };
  let timer;
  const later = () => { clearTimeout(timer); timer = setTimeout(() => load(false), 300); };
  for (const input of [time, kind, server]) input.addEventListener('change', () => load(false));
  for (const input of [tool, principal].filter(Boolean)) input.addEventListener('input', later);
  const about = may('superuser') ? 'The last calls of tools, the newest first.' : 'Your last calls of tools, the newest first.';
  fill(main, heading('History', about, time, kind, server, tool, principal, refresh, Object.entries(FORMATS).map(exporting)), list,
    h('div', { class: 'row-of-buttons' }, more));
  load(false);
  return () => { turn = -1; clearTimeout(timer); };
}
