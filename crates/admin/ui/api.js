// Requests to the REST API with the session of the browser.

const API = '../api/v1/mcp';

/** The visitor: principal, role, CSRF token. */
export const visitor = { principal: null, role: null, csrf: null, can_sign_in: false };

const RANK = { reader: 1, caller: 2, superuser: 3 };

/** Whether the visitor has at least this role. */
export function may(role) {
  return (RANK[visitor.role] ?? 0) >= RANK[role];
}

/** A failed request. */
export class Failure extends Error {
  constructor(status, problem) {
    super(problem.detail ?? problem.title ?? `the gateway answered ${status}`);
    this.status = status;
    this.code = problem.code;
    this.problem = problem;
  }
}

function headers(method, more) {
  const all = { Accept: 'application/json', ...more };
  if (method !== 'GET' && visitor.csrf) all['X-Switchyard-CSRF'] = visitor.csrf;
  return all;
}

/** Sends a request and returns the response, whatever its status. */
export async function send(method, path, { body, accept, signal, extra } = {}) {
  const more = { ...extra };
  if (accept) more.Accept = accept;
  if (body !== undefined) more['Content-Type'] = 'application/json';
  const init = { method, headers: headers(method, more), signal, credentials: 'same-origin', cache: 'no-store' };
  if (body !== undefined) init.body = JSON.stringify(body);
  return fetch(path.startsWith('/') ? API + path : path, init);
}

/** Throws if the response is a failure. */
export async function checked(response) {
  if (response.ok) return response;
  let problem = {};
  try { problem = await response.json(); } catch { /* not a problem document */ }
  if (response.status === 401) document.dispatchEvent(new CustomEvent('signed-out'));
  throw new Failure(response.status, problem);
}

export async function get(path, options) {
  return (await checked(await send('GET', path, options))).json();
}

/** The last answers that have an entity tag, by their path. */
const tagged = new Map();

/** Asks for `path`, and gets nothing again that is as it was. Returns the value that `read` makes of the answer, and whether it is new. */
export async function getIfChanged(path, read = (response) => response.json(), options = {}) {
  const before = tagged.get(path);
  const response = await send('GET', path, { ...options, extra: before && { 'If-None-Match': before.tag } });
  if (response.status === 304 && before) return [before.value, false];
  const value = await read(await checked(response));
  const tag = response.headers.get('etag');
  if (tag) tagged.set(path, { tag, value });
  return [value, true];
}

/** A page of the history: the calls that `query` finds, from `cursor` of the page before on. */
export function pastCalls(query, cursor) {
  return get(`/history?${new URLSearchParams({ ...query, ...(cursor && { cursor }) })}`);
}

export async function post(path, body, options) {
  return (await checked(await send('POST', path, { body, ...options }))).json();
}

export async function remove(path) {
  return (await checked(await send('DELETE', path))).json();
}

/** The metrics of these names as text. */
export async function metricsText(names) {
  const query = new URLSearchParams(names.map((name) => ['name[]', `switchyard_${name}`]));
  const [text] = await getIfChanged(`../metrics?${query}`, (response) => response.text(), { accept: '*/*' });
  return text;
}

/** Path of a server. */
export function ofServer(name, rest = '') {
  return `/servers/${encodeURIComponent(name)}${rest}`;
}

/** Asks who the visitor is. */
export async function loadVisitor() {
  const response = await fetch('session', { credentials: 'same-origin', cache: 'no-store' });
  if (!response.ok) throw new Failure(response.status, {});
  Object.assign(visitor, await response.json());
  return visitor;
}

/** Ends the session of the browser. */
export async function signOut() {
  const body = new URLSearchParams({ csrf: visitor.csrf ?? '' });
  const response = await fetch('../oauth/sign-out', { method: 'POST', body, credentials: 'same-origin' });
  if (!response.ok) throw new Failure(response.status, {});
  Object.assign(visitor, { principal: null, role: null, csrf: null });
}

/** Reads the events of an event stream, one object `{id, event, data}` after the other. */
export async function* eventsOf(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = '';
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      text = (text + value).replace(/\r\n?/g, '\n');
      let end;
      while ((end = text.indexOf('\n\n')) >= 0) {
        const event = parsed(text.slice(0, end));
        text = text.slice(end + 2);
        if (event.data !== '') yield event;
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

function parsed(block) {
  const event = { id: undefined, event: 'message', data: '' };
  const lines = [];
  for (const line of block.split('\n')) {
    const colon = line.indexOf(':');
    if (colon === 0) continue;
    const [name, value] = colon < 0 ? [line, ''] : [line.slice(0, colon), line.slice(colon + 1).replace(/^ /, '')];
    if (name === 'data') lines.push(value);
    else if (name === 'id' || name === 'event') event[name] = value;
  }
  event.data = lines.join('\n');
  return event;
}
