// What is wrong with a server, and how many servers have nothing wrong.

/** The kinds of servers in the order of the list. Those of the first line are problems. */
const [PROBLEMS, OTHERS] = [['broken', 'stuck', 'doubtful'], ['busy', 'healthy', 'off']];
const ORDER = [...PROBLEMS, ...OTHERS];
/** States that last until somebody does something. */
const STUCK = ['not_configured', 'auth_failed', 'login_required', 'disconnected'];
/** States that a server leaves by itself. */
const BUSY = ['connecting', 'starting'];

/** How many tools of a server are blocked until they are approved. */
export function blockedTools(server) {
  return (server.changed_tools ?? []).filter((change) => change.held_back).length;
}

function kindOf(server) {
  if (!server.enabled) return 'off';
  if (STUCK.includes(server.state)) return 'stuck';
  if (!server.healthy && (server.last_error || !BUSY.includes(server.state))) return 'broken';
  if (blockedTools(server) > 0 || server.problems?.length > 0) return 'doubtful';
  return server.healthy ? 'healthy' : 'busy';
}

/** Whether somebody should look at a server: it does not work, its entry has a mistake, or tools of it are blocked. */
export function hasProblem(server) {
  return PROBLEMS.includes(kindOf(server));
}

/** The servers, those with a problem first. Servers of a kind keep their order. */
export function byProblem(servers) {
  return [...servers].sort((a, b) => ORDER.indexOf(kindOf(a)) - ORDER.indexOf(kindOf(b)));
}

/** The numbers of all servers in words, as each part of the dashboard has them; `short` is for a phone. Disabled servers do not count. */
export function summary(servers) {
  const on = servers.filter((server) => server.enabled);
  const [healthy, problems] = [on.filter((server) => server.healthy).length, on.filter(hasProblem).length];
  const all = on.length === 0 ? 'no server enabled' : healthy === on.length ? `all ${on.length} healthy` : `${healthy} of ${on.length} healthy`;
  const kind = problems > 0 ? (healthy === 0 ? 'bad' : 'warn') : on.length === 0 ? 'off' : 'good';
  const [text, short] = problems > 0 ? [`${all} · ${problems} with a problem`, `${problems} with a problem`] : [all, all];
  return { text, short, kind };
}
