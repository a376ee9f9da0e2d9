// Calls a tool: form, progress, server requests, result.

import { checked, eventsOf, may, send, visitor } from './api.js';
import { told } from './actions.js';
import { requestOf, showCommands } from './command.js';
import { badge, button, duration, fill, h, announce, json } from './dom.js';
import { formOf, Misfit } from './form.js';
import { contentBlock } from './media.js';

const STREAM = 'text/event-stream, application/json';

/** The part of a page that calls `tool`, which is `{server, tool, name, definition}`, and has the `view` whose clients have it. */
export function callPanel(tool) {
  if (!may('caller')) return h('p', { class: 'quiet' }, 'Your role may read, but not call tools.');
  const send = (given, output, signal) => called(requestOf(tool, given), output, signal);
  return requestForm({ schema: tool.definition?.inputSchema ?? {}, verb: 'Call', send, more: (read) => button('As a command…', () => read((given) => showCommands(tool, given))) });
}

/**
 * A form for `schema`, if there is one, and the place of its answer. `send` gets the value, the place and a signal that ends it. `more` makes
 * further buttons: it gets a function that reads the form and passes the value on, if it fits.
 */
export function requestForm({ schema, verb, send, more }) {
  const form = schema ? formOf(schema) : { element: null, read: () => ({}) };
  const output = h('div', { class: 'output' });
  const problem = h('p', { class: 'problem', role: 'alert', hidden: true });
  let running = null;
  const run = h('button', { type: 'submit', class: 'primary' }, verb);
  const stop = button('Cancel', () => running?.abort(), { hidden: true });
  const show = (isRunning) => { run.disabled = isRunning; stop.hidden = !isRunning; };
  const read = (use) => {
    problem.hidden = true;
    let given;
    try { given = form.read(); } catch (error) {
      if (!(error instanceof Misfit)) throw error;
      fill(problem, error.message);
      problem.hidden = false;
      error.input?.focus();
      return;
    }
    use(given);
  };
  const submit = (event) => {
    event.preventDefault();
    read(async (given) => {
      running = new AbortController();
      show(true);
      try { await send(given, output, running.signal); } finally { show(false); running = null; }
    });
  };
  return h('form', { class: 'call', novalidate: true, onsubmit: submit }, form.element, problem,
    h('div', { class: 'row-of-buttons' }, run, stop, more?.(read)), output);
}

async function called(body, output, signal) {
  const view = progressView();
  fill(output, view.element);
  announce(`calling ${body.tool}`);
  try {
    const response = await checked(await send('POST', '/call', { body, accept: STREAM, signal }));
    const isStream = (response.headers.get('content-type') ?? '').startsWith('text/event-stream');
    const answer = isStream ? await streamed(response, view) : await response.json();
    fill(output, result(answer));
    announce(answer.success ? 'the tool answered' : 'the tool reported an error');
  } catch (error) {
    fill(output, failed(error));
    announce('the call failed', true);
  }
}

/** How a request ended without an answer. */
export function failed(error) {
  const text = error.name === 'AbortError' ? 'The call was cancelled.' : told(error);
  return h('div', { class: 'result bad' }, h('h3', {}, badge('failed', 'bad')), h('p', {}, text),
    error.problem && h('details', {}, h('summary', {}, 'Problem document'), json(error.problem, 'Problem document')));
}

function progressView() {
  const bar = h('progress', { 'aria-label': 'Progress' });
  const text = h('p', { class: 'quiet' }, 'Running…');
  const log = h('ol', { class: 'log' });
  const questions = h('div', {});
  return { element: h('div', { class: 'running' }, bar, text, questions, log), bar, text, log, questions };
}

async function streamed(response, view) {
  let call = null;
  for await (const { event, data } of eventsOf(response)) {
    let value;
    try { value = JSON.parse(data); } catch { continue; }
    if (event === 'call') call = value.call;
    else if (event === 'progress') progress(view, value);
    else if (event === 'message') view.log.append(h('li', {}, typeof value.data === 'string' ? value.data : JSON.stringify(value.data ?? value)));
    else if (event === 'question') bring(view.questions, question(call, value));
    else if (event === 'question_withdrawn') [...view.questions.children].find((box) => box.dataset.id === String(value.id))?.remove();
    else if (event === 'result') return value;
    else if (event === 'error') throw Object.assign(new Error(value.detail ?? value.title ?? 'the call failed'), { problem: value });
  }
  throw new Error('the stream of the call ended without a result');
}

function progress(view, { progress: done, total, message }) {
  if (typeof total === 'number' && total > 0) { view.bar.max = total; view.bar.value = done; }
  fill(view.text, [message, total ? `${done} of ${total}` : done].filter((part) => part !== undefined && part !== null).join(' · '));
}

/** Brings a server request before the eyes of the visitor, with the cursor in its first field. */
function bring(questions, box) {
  questions.append(box);
  box.scrollIntoView({ block: 'center' });
  box.querySelector('input, select, textarea, a, button').focus({ preventScroll: true });
  announce('the server asks something', true);
}

const TITLES = { elicitation: 'The server asks you', sampling: 'The server asks for a completion of a model', roots: 'The server asks for roots' };

/** The page that a server asks to open; null if it is none of the web. */
function pageOf(url) {
  try {
    const page = new URL(url);
    return ['http:', 'https:'].includes(page.protocol) ? page.href : null;
  } catch { return null; }
}

/** The page of an elicitation by URL: its whole address, and a link that says where it leads. */
function pageLink(url) {
  const page = pageOf(url);
  return [h('p', {}, h('code', {}, url)), page && h('p', {}, h('a', { class: 'button', href: page, target: '_blank', rel: 'noopener noreferrer' }, `Open the page at ${new URL(page).host}`))];
}

/** A server request, with a form for the answer. */
function question(call, { id, kind, request }) {
  const params = request?.params ?? request ?? {};
  const box = h('section', { class: 'question', 'aria-label': 'The server asks', 'data-id': String(id) });
  const [isElicitation, isPage] = [kind === 'elicitation', params.mode === 'url'];
  const form = isPage ? null : formOf(isElicitation ? params.requestedSchema ?? { type: 'object', properties: {} } : {});
  const problem = h('p', { class: 'problem', role: 'alert', hidden: true });
  const answer = async (reply) => {
    try {
      await checked(await send('POST', `/call/${encodeURIComponent(call)}/answer`, { body: { id, ...reply } }));
      box.remove();
    } catch (error) {
      fill(problem, told(error));
      problem.hidden = false;
    }
  };
  const accept = () => {
    if (isPage) { answer({ result: { action: 'accept' } }); return; }
    let content;
    try { content = form.read(); } catch (error) { fill(problem, error.message); problem.hidden = false; error.input?.focus(); return; }
    answer({ result: isElicitation ? { action: 'accept', content } : content });
  };
  const decline = () => answer(isElicitation ? { result: { action: 'decline' } } : { error: { code: -1, message: 'the user declined' } });
  return fill(box, h('h3', {}, TITLES[kind] ?? kind), params.message && h('p', {}, params.message),
    isElicitation ? isPage && pageLink(params.url) : json(params, 'Request of the server'),
    form?.element, problem, h('div', { class: 'row-of-buttons' }, button(isPage ? 'I have opened it' : 'Answer', accept, { class: 'primary' }), button('Decline', decline)));
}

function result(answer) {
  const kind = answer.success ? 'good' : 'bad';
  const word = answer.success ? 'answered' : 'tool error';
  const structured = answer.structured_content;
  return h('div', { class: `result ${kind}` },
    h('h3', {}, badge(word, kind), h('span', { class: 'quiet' }, ` ${duration(answer.execution_time_ms)}`)),
    answer.error && h('p', {}, typeof answer.error === 'string' ? answer.error : JSON.stringify(answer.error)),
    (answer.content ?? []).map(contentBlock),
    structured !== undefined && structured !== null && h('details', {}, h('summary', {}, 'Structured content'), json(structured, 'Structured content')),
    h('details', {}, h('summary', {}, 'Complete answer'), json(answer, 'Complete answer')),
    h('p', { class: 'quiet small' }, `request ${answer.request_id ?? ''} by ${visitor.principal ?? ''}`));
}
