// A picture from a graph in the language of Graphviz. Nodes, edges and clusters have a `class`; the theme gives it a color.

import { style, SANS } from './theme.mjs';

const RULES = `.graph>polygon{fill:var(--paper);stroke:none}
text{fill:var(--ink);font-family:${SANS}}
.node path,.node polygon,.node ellipse{fill:var(--box);stroke:var(--line)}
.cluster path,.cluster polygon{fill:none;stroke:var(--accent);stroke-width:1.5}
.cluster text{fill:var(--accent);font-weight:bold}
.edge path{stroke:var(--line)}.edge polygon{fill:var(--line);stroke:var(--line)}.edge text{fill:var(--faint)}
${['good', 'bad', 'warn', 'accent'].map((name) => `.node.${name} path,.node.${name} polygon{stroke:var(--${name});stroke-width:2}
.edge.${name} path{stroke:var(--${name})}.edge.${name} polygon{fill:var(--${name});stroke:var(--${name})}`).join('\n')}
`;

const DEFAULTS = {
  graphAttributes: { fontname: 'Helvetica', fontsize: 13, pad: 0.2, nodesep: 0.3, ranksep: 0.5 },
  nodeAttributes: { fontname: 'Helvetica', fontsize: 13, shape: 'box', style: 'rounded', margin: '0.16,0.09' },
  edgeAttributes: { fontname: 'Helvetica', fontsize: 11, arrowsize: 0.7 },
};

/** Draws `source`. Names of nodes are no tooltips, and colors of Graphviz give way to those of the theme. */
export function graph(viz, source) {
  const drawn = viz.renderString(source, { format: 'svg', engine: 'dot', ...DEFAULTS });
  const body = drawn.slice(drawn.indexOf('<svg')).replace(/<!--.*?-->\n?/gs, '').replace(/<title>.*?<\/title>\n?/gs, '');
  return body.replace(/ (fill|stroke|font-family)="(?!none)[^"]*"/g, '').replace('>', ` role="img">\n${style(RULES)}`);
}
