// View: one server, its state, actions and tools.

import { get, may, ofServer, post } from './api.js';
import { action, told } from './actions.js';
import { json, callPanel } from './call.js';
import { counted, fill, fillIfChanged, h, heading, number } from './dom.js';
import { breakerBadge, inTime, mistakes, reason, sparklines, stateBadge, target } from './servers.js';
import { historyOf, serverOf, state, watch } from './state.js';
import { loginPart } from './logins.js';
import { entryButtons } from './entries.js';
import { stderrPart } from './stderr.js';

/** The buttons for one server. */
function buttons(server) {
  if (!may('superuser') || !server.transport) return [];
  const name = server.name;
  const does = (path) => () => post(ofServer(name, path));
  return [
    action('Reset breaker', {
      title: `Close the breaker of ${name}?`, verb: 'Reset breaker', done: `the breaker of ${name} is closed`,
      text: 'Calls are sent to the server again at once, and its failures are forgotten.',
    }, () => post(`/circuit-breakers/${encodeURIComponent(name)}/reset`), { 'data-focus': 'reset' }),
    action('Reconnect', {
      title: `Reconnect ${name}?`, verb: 'Reconnect', danger: true, done: `${name} is connected again`,
      text: 'Calls that run on the connections of now fail. The server is asked again what it offers.',
    }, does('/reconnect'), { 'data-focus': 'reconnect' }),
    server.enabled ? action('Disable', {
      title: `Disable ${name}?`, verb: 'Disable', danger: true, done: `${name} is disabled`,
      text: 'Its tools leave all lists, and new calls are refused. Running calls finish. A reload or restart returns to the configuration file.',
    }, does('/disable'), { 'data-focus': 'switch' }) : action('Enable', {
      title: `Enable ${name}?`, verb: 'Enable', done: `${name} is enabled`,
      text: 'The server is connected to, and its tools are offered again. A reload or restart returns to the configuration file.',
    }, does('/enable'), { 'data-focus': 'switch' }),
  ];
}

function facts(server) {
  if (!server.transport) return h('dl', { class: 'facts' }, h('div', { class: 'fact' }, h('dt', {}, 'State'), h('dd', {}, stateBadge(server))));
  const { calls, failures, rpc_errors: refused, tool_errors: ofTools, refusals, retries } = server.counters;
  const pairs = [
    ['State', stateBadge(server)], ['Breaker', breakerBadge(server)],
    ['Transport', server.transport], ['Address', target(server)],
    ['Protocol', server.protocol_version ?? 'not known yet'],
    ['Offer', [counted(server.tool_count, 'tool'), counted(server.resource_count, 'resource'), counted(server.prompt_count, 'prompt')].join(', ')],
    ['Connections', number(server.connections)], ['Calls now', `${number(server.running_calls)} running, ${number(server.waiting_calls)} waiting`],
    ['Calls', `${number(calls)}: ${number(failures)} failed, ${number(refused)} server errors, ${number(ofTools)} tool errors, ${number(refusals)} refused, ${number(retries)} retries`],
  ];
  return h('dl', { class: 'facts' }, pairs.map(([name, value]) => h('div', { class: 'fact' }, h('dt', {}, name), h('dd', {}, value))));
}

function notes(server) {
  const { starting } = server;
  const started = starting && `starting since ${inTime(starting.elapsed_ms / 1000)}: ${starting.last_line ?? 'nothing on standard error yet'}`;
  const age = server.remembered && `the offer is remembered, as it was read ${inTime((server.remembered_age_ms ?? 0) / 1000)} ago`;
  const found = mistakes(server);
  const old = server.transport && found.length > 0 && 'It runs with its old settings, because its entry in the configuration file has mistakes:';
  const why = server.transport || found.length === 0 ? reason(server) : 'Correct its entry in the configuration file and reload:';
  const all = [started, age, why, old, ...found, ...(server.offer_problems ?? []), server.state_hint].filter(Boolean);
  return all.length > 0 && h('ul', { class: 'notes' }, all.map((text) => h('li', {}, text)));
}

/** One tool: description, schema, form. The form is made when it is opened. Among tools of all servers it has its server. */
export function toolPart(tool, isOpen, isOfAll = false) {
  const definition = tool.definition ?? {};
  const body = h('div', { class: 'tool-body' });
  const details = h('details', { class: 'tool', open: isOpen }, h('summary', {},
    h('span', { class: 'tool-name' }, tool.name),
    h('span', { class: 'quiet one-line' }, ` ${[definition.title, definition.description].filter(Boolean).join(' · ')}`),
    isOfAll && h('span', { class: 'quiet small of' }, h('span', { class: 'hidden' }, 'server '), tool.server)), body);
  const open = () => {
    if (!details.open || body.childElementCount > 0) return;
    fill(body, definition.description && h('p', { class: 'text' }, definition.description), hints(definition.annotations),
      h('h3', {}, 'Call'), callPanel(tool.server, tool.tool, definition.inputSchema),
      h('details', {}, h('summary', {}, 'Definition'), json(definition, `Definition of ${tool.name}`)));
  };
  details.addEventListener('toggle', open);
  if (isOpen) open();
  return details;
}

function hints(annotations) {
  const words = { readOnlyHint: 'read only', destructiveHint: 'destructive', idempotentHint: 'idempotent', openWorldHint: 'open world' };
  const said = Object.entries(words).filter(([key]) => annotations?.[key] === true).map(([, word]) => word);
  return said.length > 0 && h('p', { class: 'quiet small' }, `The server says: ${said.join(', ')}`);
}

/** Shows the view of the server `name`. */
export function show(main, name) {
  const head = h('div', {});
  const overview = h('section', { 'aria-label': 'Overview' });
  const login = h('div', {});
  const output = h('div', {});
  const tools = h('section', { 'aria-labelledby': 'tools-title' }, h('h2', { id: 'tools-title' }, 'Tools'), h('p', { class: 'quiet' }, 'Loading…'));
  fill(main, h('p', { class: 'crumb' }, h('a', { href: '#/servers' }, 'Servers')), head, overview, login, output, tools);
  let offered = null;
  const draw = () => {
    const server = serverOf(name);
    if (!server) {
      if (state.servers) fill(main, heading(name, 'There is no server of this name.'), h('p', {}, h('a', { href: '#/servers' }, 'All servers')));
      return;
    }
    fillIfChanged(head, JSON.stringify([server.description, server.enabled, server.transport]), () => heading(name, server.description, buttons(server), entryButtons(server),
      h('a', { class: 'button', href: `#/history/${encodeURIComponent(name)}`, 'data-focus': 'history' }, 'History')));
    const key = JSON.stringify([server, historyOf(name), state.breakers.get(name)]);
    fillIfChanged(overview, key, () => {
      const { rate, errors, times } = sparklines(name);
      return [notes(server), server.transport && h('div', { class: 'charts' },
        h('figure', {}, h('figcaption', {}, 'Calls per second'), rate), h('figure', {}, h('figcaption', {}, 'Errors per second'), errors), h('figure', {}, h('figcaption', {}, 'p50 / p99'), times)), facts(server)];
    });
    const now = JSON.stringify([server.tool_count, server.state, server.changed_tools]);
    if (now !== offered && server.transport) { offered = now; listTools(tools, name); }
    tools.hidden = !server.transport;
    fillIfChanged(output, server.transport ?? '', () => [stderrPart(server)]);
  };
  draw();
  loginPart(name).then((part) => part && fill(login, part));
  return watch(draw);
}

async function listTools(section, name) {
  try {
    const { tools } = await get(ofServer(name, '/tools'));
    // A form that is being filled in stays, unless the definitions are others.
    const key = JSON.stringify(tools);
    if (section.dataset.key === key) return;
    section.dataset.key = key;
    const open = new Set([...section.querySelectorAll('details.tool[open]')].map((one) => one.dataset.tool));
    const parts = tools.map((tool) => {
      const part = toolPart(tool, open.has(tool.tool));
      part.dataset.tool = tool.tool;
      return part;
    });
    const none = h('p', { class: 'empty' }, 'This server offers no tools now.');
    fill(section, h('h2', { id: 'tools-title' }, `Tools (${number(tools.length)})`), parts.length > 0 ? parts : none);
  } catch (error) {
    fill(section, h('h2', { id: 'tools-title' }, 'Tools'), h('p', { class: 'problem' }, told(error)));
  }
}

