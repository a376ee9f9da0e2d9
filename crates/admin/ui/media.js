// Content that servers send, in results, prompts and resources: texts, images, sounds, resources.

import { button, bytes, h, json } from './dom.js';

/** Types of images and sounds that are shown: those that can hold no script and name no other place. */
const SHOWN = {
  image: ['image/png', 'image/jpeg', 'image/gif', 'image/webp', 'image/avif'],
  audio: ['audio/mpeg', 'audio/mp4', 'audio/aac', 'audio/ogg', 'audio/wav', 'audio/x-wav', 'audio/webm', 'audio/flac'],
};
const BASE64 = /^[A-Za-z0-9+/]+={0,2}$/;

function sizeOf(data) {
  return Math.floor((data.replace(/=+$/, '').length * 3) / 4);
}

/** The URL of data of an allowed type; null if it must not be shown. */
function dataUrl(type, kind, data) {
  const [plain] = String(type).toLowerCase().split(';');
  return SHOWN[kind].includes(plain) && BASE64.test(data) ? `data:${plain};base64,${data}` : null;
}

/** An image or a sound with its type and size. What is of another type, or damaged, is only named. */
function media(kind, type, data) {
  const size = typeof data === 'string' ? bytes(sizeOf(data)) : 'without data';
  const about = `${kind}, ${type ?? 'unknown type'}, ${size}`;
  const url = typeof data === 'string' ? dataUrl(type, kind, data) : null;
  if (url === null) return h('p', { class: 'quiet' }, about);
  const caption = h('figcaption', { class: 'quiet small' }, about);
  const shown = kind === 'image' ? h('img', { src: url, alt: 'image of the server' }) : h('audio', { src: url, controls: true, preload: 'metadata', 'aria-label': 'sound of the server' });
  shown.addEventListener('error', () => { shown.remove(); caption.textContent += ', damaged'; });
  return h('figure', { class: 'media' }, shown, caption);
}

function text(value, label) {
  return h('pre', { class: 'code wrap', tabindex: '0', role: 'region', 'aria-label': label }, value);
}

/** Saves base64 as a file. */
function saveButton(data, uri) {
  const name = String(uri).split(/[/\\?#]/).findLast((part) => part !== '')?.replace(/[^\w.-]/g, '_') ?? 'resource';
  return button('Save as a file', () => {
    const content = Uint8Array.from(atob(data), (letter) => letter.charCodeAt(0));
    const url = URL.createObjectURL(new Blob([content], { type: 'application/octet-stream' }));
    const link = h('a', { href: url, download: name });
    link.click();
    setTimeout(() => URL.revokeObjectURL(url), 10000);
  }, { class: 'small' });
}

/** The contents of a resource: its text, an image, a sound, or a file to save. */
export function resourceContents({ uri, mimeType, text: written, blob }) {
  const about = h('p', { class: 'quiet small' }, h('code', {}, uri), mimeType && ` · ${mimeType}`);
  if (typeof written === 'string') return [about, text(written, `Text of ${uri}`)];
  if (typeof blob !== 'string') return about;
  const kind = Object.keys(SHOWN).find((one) => dataUrl(mimeType, one, blob) !== null);
  return [about, kind ? media(kind, mimeType, blob) : h('p', {}, `${bytes(sizeOf(blob))} `, BASE64.test(blob) && saveButton(blob, uri))];
}

/** One block of content. What is not known is shown as JSON. */
export function contentBlock(content) {
  const { type } = content ?? {};
  if (type === 'text' && typeof content.text === 'string') return text(content.text, 'Text of the result');
  if (type === 'image' || type === 'audio') return media(type, content.mimeType, content.data);
  if (type === 'resource' && content.resource) return resourceContents(content.resource);
  if (type === 'resource_link') return h('p', {}, content.title ?? content.name, ' ', h('code', { class: 'quiet' }, content.uri));
  return json(content, 'Content of the result');
}
