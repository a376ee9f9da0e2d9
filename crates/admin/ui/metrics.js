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
