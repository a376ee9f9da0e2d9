// Why a caller gets a tool, or does not: the question, and the answer in the words of `switchyard why`.

import { get } from './api.js';
import { dialog, told } from './actions.js';
import { callerOptions, loadCallers, ofView, viewOf } from './callers.js';
import { announce, button, field, fill, h } from './dom.js';

/** The rule that decided, as a place in the configuration file. */
function ruleOf({ setting, rule, line, file }) {
  const place = [line && ` in line ${line}`, file && (line ? ` of ${file}` : ` in ${file}`)].filter(Boolean).join('');
  if (!setting) return 'none hides it';
  if (rule) return `${setting}: ${rule}${place}`;
  return setting.endsWith('.read_only') ? `${setting}${place}` : `${setting}${place} has nothing for it`;
}

function clashOf({ bare_name: name, others, previous_owner: owner }) {
  return owner ? `${name} belonged to the server ${owner} before` : `other tools are called ${name} too: ${others.join(', ')}`;
}

function limitOf({ name, requests_per_minute: requests, calls_at_a_time: calls, is_shared: isShared, principal, role }) {
  const most = [requests && `${requests} requests a minute`, calls && `${calls} calls at a time`].filter(Boolean).join(' and ');
  const whose = `${principal ? ` with the principal ${principal}` : ''}${role ? ` with the role ${role}` : ''}`;
  return `${name} (${most}, ${isShared ? 'all callers together' : 'each caller'}${whose})`;
}

function answer(tool) {
  const lines = [['tool', `${tool.server}/${tool.tool}`], ['clients', tool.listed_as ? `get it as ${tool.listed_as}` : 'do not get it'], ['rule', ruleOf(tool)],
    ['held', tool.is_held && 'it is new or changed, and nobody approved it'], ['name', tool.name_clash && clashOf(tool.name_clash)],
    ['server', `${tool.state}, circuit breaker ${tool.circuit_breaker}`], ['limits', tool.limits.map(limitOf).join(', ')], ['to do', tool.advice]];
  return h('dl', { class: `reasons result ${tool.listed_as ? 'good' : 'bad'}` }, lines.filter(([, text]) => text).map(([name, text]) => h('div', {}, h('dt', {}, name), h('dd', {}, text))));
}

/** Opens the question why a caller gets a tool. With `tool`, it is asked at once; `view` is the view of the caller. */
export function askWhy({ tool = '', view = null } = {}) {
  dialog('Why is a tool here, or not?', () => {
    const name = h('input', { type: 'text', autocomplete: 'off', autofocus: true, required: true, value: tool, spellcheck: 'false' });
    const caller = h('select', {}, h('option', { value: view ? ofView(view) : '' }, view ?? 'Clients without a view'));
    const output = h('div', { 'aria-live': 'polite' });
    let known = { views: [], keys: [] };
    const ask = async () => {
      const asked = viewOf(known, caller.value);
      fill(output, h('p', { class: 'quiet' }, 'Asking…'));
      try {
        const { tools } = await get(`/why?${new URLSearchParams({ tool: name.value.trim(), ...(asked && { view: asked }) })}`);
        fill(output, tools.map(answer));
      } catch (error) {
        fill(output, h('p', { class: 'problem' }, told(error)));
      }
    };
    loadCallers().then((callers) => {
      const chosen = caller.value;
      known = callers;
      fill(caller, callerOptions(callers, 'Clients without a view'));
      caller.value = chosen;
    }, (error) => announce(error.message, true));
    if (tool) ask();
    return [h('form', { onsubmit: (event) => { event.preventDefault(); ask(); } },
      field('Tool', name, 'By a name that clients know, by its name at a server, or as server/name.'), field('For', caller),
      h('div', { class: 'row-of-buttons' }, h('button', { type: 'submit', class: 'primary' }, 'Explain'))), output];
  });
}

/** The button for that question. */
export function whyButton(view) {
  return button('Why is a tool not here?', () => askWhy({ view }), { 'data-focus': 'why' });
}
