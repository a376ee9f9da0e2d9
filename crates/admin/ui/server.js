// View: one server, its state, charts, actions and offer.

import { may, ofServer, post } from './api.js';
import { action } from './actions.js';
import { chart } from './chart.js';
import { counted, duration, fill, fillIfChanged, h, heading, number } from './dom.js';
import { blockedTools } from './health.js';
import { offersOf } from './offers.js';
import { breakerBadge, inTime, mistakes, perSecond, reason, stateBadge, target } from './servers.js';
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
  const count = blockedTools(server);
  const blocked = count > 0 && [counted(count, 'tool'), ' blocked until approved: ', h('a', { href: '#/changes', 'data-focus': 'blocked' }, 'look at what changed')];
  const all = [started, age, why, old, ...found, blocked, ...(server.offer_problems ?? []), server.state_hint].filter(Boolean);
  return all.length > 0 && h('ul', { class: 'notes' }, all.map((text) => h('li', {}, text)));
}

/** The charts of a server, which stay while it is shown. */
function charts() {
  const of = (props) => chart({ least: 1, format: perSecond, unit: 'per second', ...props });
  const all = [
    of({ title: 'Calls', none: 'no calls', series: [{ key: 'rate', name: 'calls', kind: 'rate' }] }),
    of({ title: 'Errors', none: 'no errors', series: [{ key: 'errors', name: 'errors', kind: 'errors' }] }),
    of({ title: 'Duration', none: 'no calls', unit: 'of calls', least: 10, format: duration, series: [{ key: 'p50', name: 'p50', kind: 'p50' }, { key: 'p99', name: 'p99', kind: 'p99' }] }),
  ];
  return { element: h('div', { class: 'charts' }, all.map((one) => one.element)), update: (history) => all.forEach((one) => one.update(history)) };
}

/** Shows the view of the server `name`. */
export function show(main, name) {
  const head = h('div', {});
  const problems = h('div', {});
  const overview = h('section', { 'aria-label': 'Overview' });
  const login = h('div', {});
  const output = h('div', {});
  const drawn = charts();
  const offers = offersOf(name);
  fill(main, h('p', { class: 'crumb' }, h('a', { href: '#/servers' }, 'Servers')), head, problems, drawn.element, overview, login, output, offers.element);
  const draw = () => {
    const server = serverOf(name);
    if (!server) {
      if (state.servers) fill(main, heading(name, 'There is no server of this name.'), h('p', {}, h('a', { href: '#/servers' }, 'All servers')));
      return;
    }
    fillIfChanged(head, JSON.stringify([server.description, server.enabled, server.transport]), () => heading(name, server.description, buttons(server), entryButtons(server),
      h('a', { class: 'button', href: `#/history/${encodeURIComponent(name)}`, 'data-focus': 'history' }, 'History')));
    fillIfChanged(problems, JSON.stringify(server), () => notes(server));
    fillIfChanged(overview, JSON.stringify([server, state.breakers.get(name)]), () => facts(server));
    drawn.element.hidden = !server.transport;
    drawn.update(historyOf(name));
    offers.update(server);
    fillIfChanged(output, server.transport ?? '', () => [stderrPart(server)]);
  };
  draw();
  loginPart(name).then((part) => part && fill(login, part));
  return watch(draw);
}
