// Dialogs, and actions that ask before they change something.

import { button, fill, h, toast } from './dom.js';
import { refresh } from './state.js';

/** Opens a dialog. `content` gets the function that closes it. */
export function dialog(title, content) {
  const id = `dialog-${Math.random().toString(36).slice(2)}`;
  const box = h('dialog', { 'aria-labelledby': id });
  const close = () => end(box);
  const cross = button('Close', close, { class: 'plain close' });
  box.append(h('div', { class: 'dialog-head' }, h('h2', { id }, title), cross), h('div', { class: 'dialog-body' }, content(close)));
  box.addEventListener('close', () => box.remove()); // by the key Escape
  box.addEventListener('click', (event) => { if (event.target === box) close(); });
  document.body.append(box);
  box.showModal();
  return box;
}

/** Closes what is open, before another view is shown. */
export function closeDialogs() {
  for (const box of document.querySelectorAll('dialog')) end(box);
}

/** Closes a dialog, which gives the focus back, and removes it at once: it may show a secret. The event comes later. */
function end(box) {
  box.close();
  box.remove();
}

/** Asks whether to do something. `work` is done after "yes". */
export function confirmed({ title, text, verb, danger }, work) {
  const open = (close) => {
    const problem = h('p', { class: 'problem', role: 'alert', hidden: true });
    const yes = button(verb, async () => {
      await attempt(yes, problem, async () => {
        await work();
        close();
      });
      refresh();
    }, { class: danger ? 'danger' : 'primary' });
    const no = button('Cancel', close, { autofocus: true });
    return [h('p', {}, text), h('p', { class: 'quiet small' }, 'The audit log records it with your name.'), problem,
      h('div', { class: 'dialog-foot' }, no, yes)];
  };
  return dialog(title, open);
}

/** The form of a dialog. `work` is done when it is sent; the dialog stays open if that fails. */
export function dialogForm(close, verb, content, work) {
  const problem = h('p', { class: 'problem', role: 'alert', hidden: true });
  const yes = h('button', { type: 'submit', class: 'primary' }, verb);
  const submit = (event) => {
    event.preventDefault();
    attempt(yes, problem, work);
  };
  return h('form', { onsubmit: submit }, content, problem, h('div', { class: 'dialog-foot' }, button('Cancel', close), yes));
}

/** Does `work` while the button `yes` is disabled. A failure is shown in `problem`. */
async function attempt(yes, problem, work) {
  yes.disabled = true;
  problem.hidden = true;
  try {
    await work();
  } catch (error) {
    fill(problem, told(error));
    problem.hidden = false;
  } finally {
    yes.disabled = false;
  }
}

/** A failure in words, with its advice. */
export function told(error) {
  const hint = error.problem?.hint;
  return [error.message, hint && h('span', { class: 'hint' }, ` ${hint}`)];
}

/** A button that asks, then does `work` and says `done`. */
export function action(label, question, work, props = {}) {
  const ask = () => confirmed(question, async () => {
    const said = await work();
    toast(typeof said === 'string' ? said : question.done);
  });
  return button(label, ask, props);
}
