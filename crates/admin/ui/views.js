// View: all views, and one view with its rules, its callers and its tools.

import { getIfChanged, may } from './api.js';
import { told } from './actions.js';
import { ofKey } from './callers.js';
import { addressOf, quoted } from './command.js';
import { badge, copyBlock, counted, fill, fillIfChanged, h, heading, number, table } from './dom.js';
import { state, watch } from './state.js';
import { reload } from './system.js';
import { toolBrowser, toolsOf } from './tools.js';
import { whyButton } from './why.js';

/** Time after which the gateway is asked again although no server changed: the file may have been reloaded, or a key made. */
const SELDOM_MS = 30000;
/** Servers and callers that a row names. */
const NAMED = 3;
const EXAMPLE = `views:
  support:
    allow: ["tickets/*", "docs/search"]
    deny: ["tickets/delete_*"]
`;

const link = (view) => `#/views/${encodeURIComponent(view)}`;

/** The command that makes a key for a view. */
const keyCommand = (view) => `switchyard key add NAME --role caller --view ${quoted(view)}`;

/** What the servers offer, so that a view may have changed if it did. */
function offers() {
  return JSON.stringify((state.servers ?? []).map((one) => [one.name, one.state, one.tool_count, one.resource_count, one.template_count, one.prompt_count, one.changed_tools]));
}

/** Calls `load` now, after a reload, when the servers offer something else, and seldom beside that. Returns the function that ends it. */
function kept(load) {
  let [seen, at] = [offers(), Date.now()];
  const again = () => { [seen, at] = [offers(), Date.now()]; load(); };
  const end = watch(() => { if (offers() !== seen || Date.now() - at >= SELDOM_MS) again(); });
  document.addEventListener('reloaded', again);
  load();
  return () => { end(); document.removeEventListener('reloaded', again); };
}

/** The first of `names`, and how many more there are. */
function named(names) {
  return names.length > NAMED ? `${names.slice(0, NAMED).join(', ')} and ${number(names.length - NAMED)} more` : names.join(', ');
}

function callersOf({ keys, token_words: words, certificates }) {
  return [...keys.map(({ id }) => id), ...words.map((word) => `tokens with ${word}`), ...certificates];
}

function isEmpty(view) {
  return view.tool_count + view.resource_count + view.template_count + view.prompt_count === 0;
}

/** What somebody should look at in a view, each as `[text, kind, address]`. */
function problemsOf(view) {
  return [view.held_tool_count > 0 && [`${counted(view.held_tool_count, 'tool')} held`, 'bad', '#/changes'],
    view.idle_rule_count > 0 && [`${counted(view.idle_rule_count, 'rule')} without effect`, 'warn'],
    isEmpty(view) && ['nothing in it', 'warn']].filter(Boolean);
}

function problemBadge([text, kind, href]) {
  return href ? h('a', { class: `badge ${kind}`, href }, h('span', { class: 'dot', 'aria-hidden': 'true' }), text) : badge(text, kind);
}

function row(view) {
  const problems = problemsOf(view);
  const callers = callersOf(view);
  const of = view.servers.filter((one) => !isEmpty(one)).map(({ server }) => server);
  return h('li', { class: `server ${problems.length > 0 ? 'troubled' : ''}` },
    h('div', { class: 'name' }, h('a', { href: link(view.view), 'data-focus': view.view }, view.view), h('span', { class: 'quiet small' }, `/mcp/${view.view}`)),
    h('div', { class: 'states' }, problems.map(problemBadge), view.read_only && h('span', { class: 'tag read' }, 'read only')),
    h('div', { class: 'cell numbers' }, h('span', {}, counted(view.tool_count, 'tool')), h('span', { class: 'quiet small' }, offer({ ...view, tool_count: null }))),
    h('div', { class: 'cell' }, h('span', { class: 'narrow-only quiet' }, 'from '), of.length > 0 ? named(of) : h('span', { class: 'quiet' }, 'no server')),
    h('div', { class: 'cell' }, h('span', { class: 'narrow-only quiet' }, 'for '), callers.length > 0 ? named(callers) : h('span', { class: 'quiet' }, 'whoever uses its address')));
}

/** A view that callers are bound to, and that does not exist. */
function missingRow(view) {
  return h('li', { class: 'server troubled' }, h('div', { class: 'name' }, h('strong', {}, view.view || '(no name)')), h('div', { class: 'states' }, badge('no such view', 'bad')),
    h('p', { class: 'why' }, `It is in no configuration file, so its callers see nothing: ${named(callersOf(view))}. Add it below views, or bind them to another view.`));
}

function nothing() {
  return h('div', { class: 'empty' }, h('p', {}, 'There is no view. A view is a named selection of servers and of their tools, prompts and resources. A key or a token that is bound to one reaches what it has, and nothing else. To make one, write it into the configuration file and reload:'),
    copyBlock('A view', EXAMPLE), copyBlock('A key for it', keyCommand('support')),
    h('p', { class: 'small' }, 'The page docs/views.md of the documentation explains rules, changes of tools, and tokens.'));
}

function all(main) {
  const list = h('div', {}, h('p', { class: 'quiet' }, 'Loading…'));
  const columns = h('div', { class: 'columns', 'aria-hidden': 'true', hidden: true }, ['View', 'Look at', 'Its clients get', 'From', 'Callers'].map((title) => h('span', {}, title)));
  fill(main, heading('Views', 'What each key, token or address gets of the servers.', whyButton(null), reload()), h('div', { class: 'views' }, columns, list));
  let isOver = false;
  const load = async () => {
    try {
      const [{ views, missing }] = await getIfChanged('/views');
      if (isOver) return;
      // Those with a problem come first.
      const sorted = [...views].sort((a, b) => (problemsOf(a).length === 0) - (problemsOf(b).length === 0));
      columns.hidden = views.length === 0;
      fillIfChanged(list, JSON.stringify([views, missing]), () => (views.length + missing.length === 0 ? nothing()
        : h('ul', { class: 'servers', 'aria-label': 'Views' }, missing.map(missingRow), sorted.map(row))));
    } catch (error) {
      delete list.dataset.key;
      if (!isOver) fill(list, h('p', { class: 'problem' }, told(error)));
    }
  };
  const end = kept(load);
  return () => { isOver = true; end(); };
}

/** What clients of a view get, in numbers. */
function offer({ tool_count: tools, prompt_count: prompts, resource_count: resources, template_count: templates }) {
  return [tools !== null && counted(tools, 'tool'), counted(prompts, 'prompt'), counted(resources, 'resource'), templates > 0 && counted(templates, 'template')].filter(Boolean).join(', ');
}

function facts({ summary, instructions }) {
  const servers = summary.servers.map((one, at) => [at > 0 && ', ', h('a', { href: `#/servers/${encodeURIComponent(one.server)}` }, one.server)]);
  const pairs = [['Its clients get', offer(summary)], ['Servers', servers.length > 0 ? servers : 'none'], ['Read only', summary.read_only ? 'yes' : 'no'], ['Instructions', instructions ? 'its own' : 'those of its servers']];
  return [h('dl', { class: 'facts' }, pairs.map(([name, value]) => h('div', { class: 'fact' }, h('dt', {}, name), h('dd', {}, value)))),
    instructions && h('details', { 'data-details': 'instructions' }, h('summary', {}, 'Its instructions for clients'), h('p', { class: 'text' }, instructions))];
}

function notes({ rules, changes, held_tools: held, summary }) {
  const where = ({ line }) => (line ? ` in line ${line}` : '');
  const idle = rules.filter((rule) => rule.is_idle).map((rule) => `${rule.rule}${where(rule)} selects nothing that a server has: it may be misspelled, or not needed any more`);
  const changed = changes.filter((change) => change.is_idle).map(({ server, tool }) => `${server}/${tool} below tools is no tool of the server`);
  const waiting = held.length > 0 && [counted(summary.held_tool_count, 'tool'), ` held until approved: ${named(held)}. `, h('a', { href: '#/changes', 'data-focus': 'held' }, 'Look at what changed')];
  const empty = isEmpty(summary) && 'Its clients get nothing.';
  const lines = [waiting, ...idle, ...changed, empty].filter(Boolean);
  return lines.length > 0 && h('ul', { class: 'notes' }, lines.map((line) => h('li', {}, line)));
}

function callers({ summary }, claim) {
  const { keys, token_words: words, certificates, view } = summary;
  const key = ({ id, role }) => h('li', {}, h('code', {}, id), h('span', { class: 'quiet' }, ` key, ${role} `), h('a', { href: `#/tools/${encodeURIComponent(ofKey(id))}`, 'aria-label': `${id}: its tools` }, 'its tools'));
  const token = (word) => h('li', {}, h('span', {}, 'tokens with '), h('code', {}, word), claim && [' in ', h('code', {}, claim)]);
  const certificate = (name) => h('li', {}, h('code', {}, name), h('span', { class: 'quiet' }, ' certificate'));
  return h('section', { 'aria-labelledby': 'callers' }, h('h2', { id: 'callers' }, 'Callers'),
    callersOf(summary).length > 0 ? h('ul', { class: 'plain-list' }, keys.map(key), words.map(token), certificates.map(certificate)) : h('p', { class: 'quiet' }, 'No credential is bound to it. Clients choose it by its address.'),
    copyBlock('Address', addressOf(`../mcp/${encodeURIComponent(view)}`)), copyBlock('A key that is bound to it', keyCommand(view)));
}

function effect(rule) {
  if (rule.is_idle) return badge('selects nothing', 'warn');
  const words = rule.decides > 0 || rule.selects > 0 ? `${rule.is_offering ? 'gives' : 'hides'} ${number(rule.decides)}` : 'nothing yet';
  const more = rule.selects - rule.decides;
  const notes = [more > 0 && `${number(more)} more by other rules`, rule.is_unsure && 'a server was not reached yet'].filter(Boolean).join(', ');
  const items = rule.items.length > 0 && h('details', { 'data-details': `${rule.setting} ${rule.rule}` }, h('summary', {}, words),
    h('ul', { class: 'items' }, rule.items.map((item) => h('li', {}, item)), rule.decides > rule.items.length && h('li', { class: 'quiet' }, `and ${number(rule.decides - rule.items.length)} more`)));
  return [items || words, notes && h('span', { class: 'quiet small' }, ` ${notes}`)];
}

function rules(report) {
  const short = ({ setting }) => (setting.startsWith('views.') ? setting.slice(setting.lastIndexOf('.') + 1) : setting);
  const text = (rule) => {
    if (rule.rule) return h('code', {}, rule.rule);
    return h('span', { class: 'quiet' }, rule.setting.endsWith('.read_only') ? 'tools that may change something' : rule.setting.startsWith('views.') ? 'everything else' : 'of the server itself');
  };
  const one = (rule) => h('tr', {}, h('td', {}, short(rule)), h('td', {}, text(rule), rule.line && h('span', { class: 'quiet small' }, ` line ${rule.line}`)), h('td', {}, effect(rule)));
  return h('section', { 'aria-labelledby': 'rules' }, h('h2', { id: 'rules' }, 'Rules', report.file && h('span', { class: 'quiet small file' }, ` in ${report.file}`)), table('Rules', ['Setting', 'Rule', 'Now'], report.rules.map(one)));
}

function single(main, name) {
  const [head, problems, overview, parts] = [h('div', {}), h('div', {}), h('div', {}), h('div', { class: 'sections' })];
  const browser = toolBrowser();
  const tools = h('section', { 'aria-labelledby': 'tools', hidden: true }, h('div', { class: 'heading list-heading' }, h('div', {}, h('h2', { id: 'tools' }, 'Tools as its clients get them'), browser.about), h('div', { class: 'actions' }, browser.controls)), browser.parts);
  fill(head, heading(name, null, whyButton(name)));
  fill(main, h('p', { class: 'crumb' }, h('a', { href: '#/views' }, 'Views')), head, problems, overview, parts, tools);
  let [isOver, known] = [false, null];
  const load = async () => {
    try {
      const [[report], [{ token_claim: claim }]] = await Promise.all([getIfChanged(`/views/${encodeURIComponent(name)}`), getIfChanged('/views')]);
      if (isOver) return;
      fillIfChanged(problems, JSON.stringify(report), () => notes(report));
      fillIfChanged(overview, JSON.stringify(report), () => facts(report));
      fillIfChanged(parts, JSON.stringify([report, claim]), () => [rules(report), callers(report, claim)]);
      const now = JSON.stringify([report, offers()]);
      if (now === known) return;
      const listed = await toolsOf(name, new Map(report.changes.map(({ server, tool, changed }) => [`${server}/${tool}`, changed])));
      if (isOver) return;
      known = now;
      tools.hidden = false;
      browser.show(listed);
    } catch (error) {
      if (isOver) return;
      if (error.code === 'view_not_found') { fill(main, heading(name, 'There is no view of this name.'), h('p', {}, h('a', { href: '#/views' }, 'All views'))); return; }
      delete problems.dataset.key;
      fill(problems, h('p', { class: 'problem' }, told(error)));
    }
  };
  const end = kept(load);
  return () => { isOver = true; end(); browser.end(); };
}

/** Shows the view: one of them if it has a `name`. */
export function show(main, name) {
  if (may('superuser')) return name === null ? all(main) : single(main, name);
  fill(main, heading('Views'), h('p', { class: 'empty' }, 'Your role may not see views.'));
  return () => {};
}
