// The callers whose tools can be looked at: the visitor, the holders of keys, and the clients of views.

import { get } from './api.js';
import { h } from './dom.js';

/** A caller by a word that stands in addresses: '' is the visitor, else `key:ID` or `view:NAME`. */
const [KEY, VIEW] = ['key:', 'view:'];

export const ofKey = (id) => `${KEY}${id}`;
export const ofView = (name) => `${VIEW}${name}`;

/** All callers, for a superuser. A gateway without keys has none of them. */
export async function loadCallers() {
  const none = { keys: [] };
  const [{ views }, { keys }] = await Promise.all([get('/views'), get('/keys').catch((error) => { if (error.status === 401) throw error; return none; })]);
  return { views: views.map(({ view }) => view), keys };
}

/** The view of a caller: `null` is everything, `undefined` that there is no such caller. */
export function viewOf({ keys }, caller) {
  if (caller === '') return null;
  if (caller.startsWith(VIEW)) return caller.slice(VIEW.length);
  const key = keys.find(({ id }) => ofKey(id) === caller);
  return key && (key.view ?? null);
}

/** The words for a caller in a sentence. */
export function nameOf(caller) {
  if (caller === '') return 'you';
  return caller.startsWith(KEY) ? `the key ${caller.slice(KEY.length)}` : `clients of the view ${caller.slice(VIEW.length)}`;
}

/** The options of a choice of callers. */
export function callerOptions({ views, keys }, own) {
  const option = ([value, text]) => h('option', { value }, text);
  const group = (label, options) => options.length > 0 && h('optgroup', { label }, options.map(option));
  return [option(['', own]), group('Views', views.map((view) => [ofView(view), view])),
    group('Keys', keys.map(({ id, view }) => [ofKey(id), `${id} (${view ?? 'no view'})`]))];
}
