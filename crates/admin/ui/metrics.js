// Reads the metrics text of the gateway.

/** Returns a map from a name to its samples `{labels, value}`. */
export function parse(text) {
  const all = new Map();
  for (const line of text.split('\n')) {
    if (line === '' || line.startsWith('#')) continue;
    const match = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)/.exec(line);
    if (!match) continue;
    const labels = {};
    for (const [, name, value] of (match[2] ?? '').matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)) {
      labels[name] = value.replace(/\\(.)/g, (_, c) => (c === 'n' ? '\n' : c));
    }
    if (!all.has(match[1])) all.set(match[1], []);
    all.get(match[1]).push({ labels, value: Number(match[3]) });
  }
  return all;
}

/** The first sample of `name` that has these labels. */
export function one(metrics, name, labels = {}) {
  const fits = (sample) => Object.entries(labels).every(([key, value]) => sample.labels[key] === value);
  return (metrics.get(`switchyard_${name}`) ?? []).find(fits)?.value;
}

/** All samples of `name`. */
export function every(metrics, name) {
  return metrics.get(`switchyard_${name}`) ?? [];
}

/** The calls of each server in each bucket of duration: server → [[bound, cumulative count], …]. */
export function histograms(metrics) {
  const servers = new Map();
  for (const { labels, value } of every(metrics, 'server_call_duration_seconds_bucket')) {
    if (!servers.has(labels.server)) servers.set(labels.server, new Map());
    const buckets = servers.get(labels.server);
    const bound = labels.le === '+Inf' ? Infinity : Number(labels.le);
    buckets.set(bound, (buckets.get(bound) ?? 0) + value);
  }
  return servers;
}

/** The duration in ms below which the part `q` of the calls between two histograms was. */
export function quantile(q, now, before) {
  const bounds = [...(now?.keys() ?? [])].sort((a, b) => a - b);
  const counts = bounds.map((bound) => now.get(bound) - (before?.get(bound) ?? 0));
  const total = counts.at(-1) ?? 0;
  if (total <= 0) return null;
  const wanted = q * total;
  let [low, below] = [0, 0];
  for (const [at, bound] of bounds.entries()) {
    if (counts[at] >= wanted) {
      if (bound === Infinity) return low * 1000;
      const inside = counts[at] - below;
      return (low + (bound - low) * (inside > 0 ? (wanted - below) / inside : 1)) * 1000;
    }
    [low, below] = [bound, counts[at]];
  }
  return low * 1000;
}
