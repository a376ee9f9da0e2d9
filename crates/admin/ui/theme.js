// Light, dark, or as the system has it. Kept in this browser.

import { button } from './dom.js';

const NAMES = { system: 'System', light: 'Light', dark: 'Dark' };
const ORDER = ['system', 'light', 'dark'];

function kept() {
  try { return localStorage.getItem('theme'); } catch { return null; }
}

function apply(name) {
  if (name === 'system') delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = name;
}

let current = ORDER.includes(kept()) ? kept() : 'system';
apply(current);

/** The switch. */
export function themeSwitch() {
  const label = () => `Theme: ${NAMES[current]}`;
  const one = button(label(), () => {
    current = ORDER[(ORDER.indexOf(current) + 1) % ORDER.length];
    apply(current);
    try { localStorage.setItem('theme', current); } catch { /* not kept */ }
    one.textContent = label();
  }, { class: 'plain' });
  return one;
}
