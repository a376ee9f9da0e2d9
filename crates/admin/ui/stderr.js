// The last lines that the program of a server wrote to standard error.

import { get, may, ofServer } from './api.js';
import { told } from './actions.js';
import { button, counted, fill, h } from './dom.js';

/** The part for the view of a server; null if it is no program or the role may not see it. */
export function stderrPart(server) {
  if (server.transport !== 'stdio' || !may('superuser')) return null;
  const body = h('div', {});
  const load = async () => {
    try {
      const { lines } = await get(ofServer(server.name, '/stderr'));
      const text = lines.length > 0 ? h('pre', { class: 'code wrap', tabindex: '0', role: 'region', 'aria-label': `Standard error of ${server.name}` }, lines.join('\n'))
        : h('p', { class: 'quiet' }, 'The program wrote nothing there yet.');
      fill(body, h('p', { class: 'quiet small' }, `The last ${counted(lines.length, 'line')} of the last process that wrote any, without the secrets of its settings.`), text, button('Refresh', load));
      body.querySelector('pre')?.scrollTo(0, 1e9);
    } catch (error) {
      fill(body, h('p', { class: 'problem' }, told(error)));
    }
  };
  const details = h('details', {}, h('summary', {}, 'Standard error'), body);
  details.addEventListener('toggle', () => { if (details.open) load(); });
  return h('section', { 'aria-label': 'Standard error' }, details);
}
