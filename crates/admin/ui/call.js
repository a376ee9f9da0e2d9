// Calls a tool: form, progress, server requests, result.

import { checked, eventsOf, may, send, visitor } from './api.js';
import { told } from './actions.js';
import { badge, button, bytes, duration, fill, h, announce } from './dom.js';
import { formOf, Misfit } from './form.js';

const STREAM = 'text/event-stream, application/json';

/** The part of a page that calls `tool` of `server`. */
export function callPanel(server, tool, schema) {
  if (!may('caller')) return h('p', { class: 'quiet' }, 'Your role may read, but not call tools.');
  const form = formOf(schema ?? {});
  const output = h('div', { class: 'output' });
  const problem = h('p', { class: 'problem', role: 'alert', hidden: true });
  let running = null;
  const run = h('button', { type: 'submit', class: 'primary' }, 'Call');
  const stop = button('Cancel the call', () => running?.abort(), { hidden: true });
  const show = (isRunning) => { run.disabled = isRunning; stop.hidden = !isRunning; };
  const submit = async (event) => {
    event.preventDefault();
    problem.hidden = true;
    let given;
    try { given = form.read(); } catch (error) {
      if (!(error instanceof Misfit)) throw error;
      fill(problem, error.message);
      problem.hidden = false;
      error.input?.focus();
      return;
    }
    running = new AbortController();
    show(true);
    try { await called({ server, tool, arguments: given }, output, running.signal); } finally { show(false); running = null; }
  };
  return h('form', { class: 'call', novalidate: true, onsubmit: submit }, form.element, problem,
    h('div', { class: 'row-of-buttons' }, run, stop), output);
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
    const text = error.name === 'AbortError' ? 'The call was cancelled.' : told(error);
    fill(output, h('div', { class: 'result bad' }, h('h3', {}, badge('failed', 'bad')), h('p', {}, text),
      error.problem && h('details', {}, h('summary', {}, 'Problem document'), json(error.problem, 'Problem document'))));
    announce('the call failed', true);
  }
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
    else if (event === 'question') view.questions.append(question(call, value));
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

/** A server request, with a form for the answer. */
function question(call, { id, kind, request }) {
  const params = request?.params ?? request ?? {};
  const box = h('section', { class: 'question', 'aria-label': 'The server asks', 'data-id': String(id) });
  const schema = kind === 'elicitation' ? params.requestedSchema ?? { type: 'object', properties: {} } : {};
  const form = formOf(schema);
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
    let content;
    try { content = form.read(); } catch (error) { fill(problem, error.message); problem.hidden = false; error.input?.focus(); return; }
    answer({ result: kind === 'elicitation' ? { action: 'accept', content } : content });
  };
  const decline = () => answer(kind === 'elicitation' ? { result: { action: 'decline' } } : { error: { code: -1, message: 'the user declined' } });
  announce('the server asks something', true);
  const titles = { elicitation: 'The server asks you', sampling: 'The server asks for a completion of a model', roots: 'The server asks for roots' };
  fill(box, h('h3', {}, titles[kind] ?? kind), params.message && h('p', {}, params.message),
    kind === 'elicitation' ? null : json(params, 'Request of the server'),
    form.element, problem, h('div', { class: 'row-of-buttons' }, button('Answer', accept, { class: 'primary' }), button('Decline', decline)));
  return box;
}

/** A JSON value as text. */
export function json(value, label) {
  return h('pre', { class: 'code', tabindex: '0', role: 'region', 'aria-label': label }, JSON.stringify(value, null, 2));
}

function result(answer) {
  const kind = answer.success ? 'good' : 'bad';
  const word = answer.success ? 'answered' : 'tool error';
  const structured = answer.structured_content;
  return h('div', { class: `result ${kind}` },
    h('h3', {}, badge(word, kind), h('span', { class: 'quiet' }, ` ${duration(answer.execution_time_ms)}`)),
    answer.error && h('p', {}, typeof answer.error === 'string' ? answer.error : JSON.stringify(answer.error)),
    (answer.content ?? []).map(block),
    structured !== undefined && structured !== null && h('details', {}, h('summary', {}, 'Structured content'), json(structured, 'Structured content')),
    h('details', {}, h('summary', {}, 'Complete answer'), json(answer, 'Complete answer')),
    h('p', { class: 'quiet small' }, `request ${answer.request_id ?? ''} by ${visitor.principal ?? ''}`));
}

function block(content) {
  if (content?.type === 'text') return h('pre', { class: 'code wrap', tabindex: '0', role: 'region', 'aria-label': 'Text of the result' }, content.text);
  if (content?.type === 'image' || content?.type === 'audio') {
    const size = Math.floor(((content.data ?? '').length * 3) / 4);
    return h('p', { class: 'quiet' }, `${content.type}, ${content.mimeType ?? 'unknown type'}, ${bytes(size)}`);
  }
  return json(content, 'Content of the result');
}
