// The colors of all pictures, light and dark. A picture has a background of its own, because the page around it may follow
// another setting than the browser.

const LIGHT = { paper: '#ffffff', ink: '#1f2328', faint: '#59636e', line: '#818b98', box: '#f6f8fa', accent: '#0969da', good: '#1a7f37', bad: '#cf222e', warn: '#9a6700' };
const DARK = { paper: '#0d1117', ink: '#e6edf3', faint: '#9198a1', line: '#6e7681', box: '#161b22', accent: '#58a6ff', good: '#3fb950', bad: '#f85149', warn: '#d29922' };

const variables = (colors) => Object.entries(colors).map(([name, value]) => `--${name}:${value}`).join(';');

/** A style element: the colors as variables, then `rules`. */
export const style = (rules) => `<style>svg{${variables(LIGHT)}}@media (prefers-color-scheme:dark){svg{${variables(DARK)}}}
${rules}</style>`;

export const SANS = 'Helvetica,Arial,sans-serif';
export const MONO = 'ui-monospace,SFMono-Regular,Menlo,Consolas,monospace';

export const escape = (text) => text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
