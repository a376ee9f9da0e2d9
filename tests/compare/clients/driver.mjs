// Performs the steps of `actions.py` with one TypeScript client and prints what came of each as JSON.
//
// `peer-node typescript-N.mjs steps.json`, where the file is `{ target, steps }`. The two clients bring
// `connect(target, peer, mode)`; everything else is here. The Python twin is driver.py: a verb that changes here
// changes there. The driver judges nothing: run.py compares what two runs printed.
import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';

/** Seconds for one step, unless it names another number. */
const PATIENCE = 60;

const ANSWERS = {
  'elicitation/create': ({ mode }) => ({
    action: 'accept',
    ...(mode !== 'url' && { content: { name: 'Ada', check: true, value: 'Ada' } }),
  }),
  'sampling/createMessage': () => ({
    model: 'fixed-model',
    role: 'assistant',
    content: { type: 'text', text: 'something' },
  }),
};

export const CAPABILITIES = { elicitation: { form: {}, url: {} }, sampling: {}, roots: { listChanged: true } };

/** What a connection holds beside its client: what it was asked, what it was told, and its roots. */
class Peer {
  notices = [];
  asked = [];
  read = {};
  roots = [];
  answer = (method, params) => {
    this.asked.push({ method, params });
    return method === 'roots/list' ? { roots: this.roots } : ANSWERS[method](params);
  };
  tell = ({ method, params }) => this.notices.push({ method, params });
}

const verbs = {
  async connect({ peer, step, target, mode, connect }) {
    peer.roots = step.roots ?? [];
    peer.client = await connect(target, peer, mode);
    return peer.client.facts();
  },
  list: ({ peer, step }) => peer.client[`list${step.what}`](),
  read: ({ peer, step }) => peer.client.readResource({ uri: step.uri }),
  prompt: ({ peer, step }) => peer.client.getPrompt({ name: step.name, arguments: step.arguments }),
  complete: ({ peer, step }) => peer.client.complete({ ref: step.ref, argument: step.argument, context: step.context }),
  subscribe: ({ peer, step }) => peer.client.subscribeResource({ uri: step.uri }),
  unsubscribe: ({ peer, step }) => peer.client.unsubscribeResource({ uri: step.uri }),
  level: ({ peer, step }) => peer.client.setLoggingLevel(step.level),
  ping: ({ peer }) => peer.client.ping(),
  async roots({ peer, step }) {
    peer.roots = step.roots;
    await peer.client.sendRootsListChanged();
    return {};
  },
  async pause({ step }) {
    await sleep(step.seconds * 1000);
  },
  /** Calls until the result has the text `until`, or once. */
  async call({ peer, step }) {
    for (const end = Date.now() + (step.within ?? 0) * 1000; ; await sleep(100)) {
      const outcome = await callOnce(peer, step);
      if (!step.until || JSON.stringify(outcome).includes(step.until) || Date.now() > end) return outcome;
    }
  },
  /** Notices of one method since this was asked last: waits for `count` of them, or a whole `within` when 0. */
  async heard({ peer, step }) {
    const { method, within, count = 1, without = [] } = step;
    const other = notice => without.some(text => JSON.stringify(notice).includes(text));
    const from = peer.read[method] ?? 0;
    const found = () => peer.notices.slice(from).filter(notice => notice.method === method && !other(notice));
    for (const end = Date.now() + within * 1000; Date.now() < end; await sleep(50))
      if (count > 0 && found().length >= count) break;
    if (count > 0) await sleep(200);
    const told = found();
    peer.read[method] = peer.notices.length;
    return told.map(({ params }) => params ?? {});
  },
  async close({ peer }) {
    await peer.client.close();
  },
};

async function callOnce(peer, step) {
  const [progress, stop, before] = [[], new AbortController(), peer.asked.length];
  const onprogress = told => {
    progress.push(told);
    if (step.cancel && progress.length === step.cancel) stop.abort('enough');
  };
  const options = { signal: stop.signal, ...((step.progress || step.cancel) && { onprogress }) };
  const outcome = await settled(peer.client.callTool({ name: step.name, arguments: step.arguments }, options));
  const asked = peer.asked.slice(before).filter(({ method }) => method !== 'roots/list');
  // How many notices pass before a cancellation arrives is a matter of time.
  return { ...outcome, ...(step.progress && { progress }), ...(asked.length && { asked }) };
}

async function settled(promise) {
  try {
    return { result: (await promise) ?? {} };
  } catch (error) {
    const { code, message, data } = error ?? {};
    return { error: code === undefined ? { thrown: String(message ?? error) } : { code, message, data } };
  }
}

async function perform(step, context) {
  const late = sleep((step.patience ?? PATIENCE) * 1000, undefined, { ref: false }).then(() => {
    throw new Error(`no end within ${step.patience ?? PATIENCE} s`);
  });
  const outcome = await settled(Promise.race([verbs[step.do]({ ...context, step }), late]));
  // A call says by itself what came of it.
  return step.do === 'call' && outcome.result ? outcome.result : outcome;
}

/** The transport to `target`, of the classes of one SDK. */
export function transportOf(sdk, { transport, url, command, env, cwd }) {
  if (transport === 'http') return new sdk.StreamableHTTPClientTransport(new URL(url));
  if (transport === 'sse') return new sdk.SSEClientTransport(new URL(url));
  const [program, ...args] = command;
  return new sdk.StdioClientTransport({ command: program, args, env, cwd, stderr: 'ignore' });
}

/** Does all steps, prints `[[item, outcome], …]` and leaves. */
export async function run(connect) {
  const { target, steps, mode } = JSON.parse(readFileSync(process.argv[2], 'utf8'));
  const [peers, done] = [{}, []];
  for (const step of steps) {
    const on = step.on ?? 'a';
    const peer = (peers[on] ??= new Peer());
    const outcome = await perform(step, { peer, target, mode, connect });
    if (step.item) done.push([step.item, outcome]);
  }
  for (const [on, { notices, asked }] of Object.entries(peers)) {
    for (const [what, found] of Object.entries({ notices, questions: asked }))
      done.push([`${on}: kinds of ${what}`, Object.fromEntries(found.map(({ method }) => [method, 'there']))]);
  }
  process.stdout.write(`${JSON.stringify(done)}\n`, () => process.exit(0));
}
