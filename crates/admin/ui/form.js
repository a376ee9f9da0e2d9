// A form made of a JSON Schema. What the form cannot show is entered as JSON.

import { button, fill, h } from './dom.js';

const MOST_DEPTH = 4;
let count = 0;

/** The values of a choice with their titles: of `enum`, or of the constants of `oneOf` and `anyOf`; null if it is none. */
function optionsOf(schema) {
  const word = (title, value) => (typeof title === 'string' ? title : typeof value === 'string' ? value : JSON.stringify(value));
  if (Array.isArray(schema?.enum)) return schema.enum.map((value, at) => ({ value, title: word(schema.enumNames?.[at], value) }));
  const parts = schema?.oneOf ?? schema?.anyOf;
  const isConstant = (part) => typeof part === 'object' && part !== null && 'const' in part;
  return Array.isArray(parts) && parts.length > 0 && parts.every(isConstant) ? parts.map((part) => ({ value: part.const, title: word(part.title, part.const) })) : null;
}

function kindOf(schema) {
  if (typeof schema !== 'object' || schema === null) return 'json';
  if (optionsOf(schema)) return 'enum';
  if (schema.type === 'array' && optionsOf(schema.items)) return 'several';
  if ('const' in schema) return 'const';
  const types = [schema.type].flat().filter((type) => type && type !== 'null');
  if (types.length !== 1) return 'json';
  return ['string', 'number', 'integer', 'boolean', 'object', 'array'].includes(types[0]) ? types[0] : 'json';
}

function isPlainObject(schema) {
  return kindOf(schema) === 'object' && schema.properties && typeof schema.properties === 'object' &&
    !['oneOf', 'anyOf', 'allOf', '$ref', 'if', 'patternProperties'].some((key) => key in schema);
}

/** Thrown for a value that does not fit. */
export class Misfit extends Error {
  constructor(text, input) { super(text); this.input = input; }
}

/** A field: an element, and a function that returns its value or undefined. */
function field(name, schema, isRequired, depth) {
  const kind = kindOf(schema);
  count += 1;
  const id = `f${count}`;
  const title = typeof schema?.title === 'string' ? schema.title : name;
  if (kind === 'object' && isPlainObject(schema) && depth < MOST_DEPTH) {
    const inner = members(schema, depth + 1);
    const read = () => {
      const value = inner.read();
      return !isRequired && Object.keys(value).length === 0 ? undefined : value;
    };
    return { element: h('fieldset', { class: 'nested' }, h('legend', {}, title, isRequired && star()), inner.element), read };
  }
  if (kind === 'several') return several(schema, title, isRequired, id);
  const { input, read } = entry(kind, schema, isRequired, id);
  const about = [typeof schema?.description === 'string' && schema.description, limits(schema)].filter(Boolean).join(' · ');
  const help = about && h('p', { class: 'help', id: `${id}-help` }, about);
  if (help) input.setAttribute('aria-describedby', `${id}-help`);
  const label = h('label', { for: id }, title, title !== name && h('code', { class: 'quiet' }, ` ${name}`), isRequired && star(),
    h('span', { class: 'type' }, kind === 'json' ? 'JSON' : kind));
  return { element: h('div', { class: 'field' }, label, input, help), read: () => read(name) };
}

/** Boxes to tick, for a list of values of a choice. */
function several(schema, title, isRequired, id) {
  const preset = Array.isArray(schema.default) ? schema.default : [];
  const boxes = optionsOf(schema.items).map((option, at) => ({ ...option, box: h('input', { type: 'checkbox', id: `${id}-${at}`, 'data-focus': `${id}-${at}`, checked: preset.includes(option.value) }) }));
  const help = typeof schema.description === 'string' && h('p', { class: 'help', id: `${id}-help` }, schema.description);
  const element = h('fieldset', { class: 'nested', 'aria-describedby': help ? `${id}-help` : null }, h('legend', {}, title, isRequired && star()), help,
    boxes.map(({ title: word, box }) => h('label', { class: 'tick' }, box, word)));
  const read = () => {
    const chosen = boxes.filter(({ box }) => box.checked).map(({ value }) => value);
    if (chosen.length === 0 && !isRequired) return undefined;
    const [least, most] = [schema.minItems ?? (isRequired ? 1 : 0), schema.maxItems ?? Infinity];
    if (chosen.length < least) throw new Misfit(`choose at least ${least} of ${title}`, boxes[0].box);
    if (chosen.length > most) throw new Misfit(`choose at most ${most} of ${title}`, boxes[0].box);
    return chosen;
  };
  return { element, read };
}

function star() {
  return h('span', { class: 'star', title: 'required' }, h('span', { 'aria-hidden': 'true' }, ' *'), h('span', { class: 'hidden' }, ' required'));
}

function limits(schema) {
  const known = [['minimum', '≥'], ['maximum', '≤'], ['minLength', 'length ≥'], ['maxLength', 'length ≤'], ['pattern', 'pattern'], ['format', 'format']];
  return known.filter(([key]) => ['string', 'number'].includes(typeof schema?.[key])).map(([key, word]) => `${word} ${schema[key]}`).join(' · ');
}

function entry(kind, schema, isRequired, id) {
  const common = { id, 'data-focus': id, required: isRequired };
  const preset = schema?.default;
  if (kind === 'enum' || kind === 'boolean' || kind === 'const') {
    const options = optionsOf(kind === 'enum' ? schema : { enum: kind === 'const' ? [schema.const] : [true, false] });
    const input = h('select', common, h('option', { value: '' }, isRequired ? 'choose…' : '(left out)'), options.map(({ title }, at) => h('option', { value: String(at) }, title)));
    const chosen = options.findIndex(({ value }) => value === preset);
    if (chosen >= 0) input.value = String(chosen);
    return { input, read: (name) => (input.value === '' ? missing(name, input) : options[Number(input.value)].value) };
  }
  if (kind === 'number' || kind === 'integer') {
    const input = h('input', { ...common, inputmode: kind === 'integer' ? 'numeric' : 'decimal', autocomplete: 'off', value: preset ?? '' });
    return { input, read: (name) => numberOf(name, input, kind) };
  }
  if (kind === 'string') {
    const isLong = (schema.maxLength ?? 0) > 200 || ['query', 'text', 'content', 'body', 'prompt'].includes(schema.format);
    const input = h(isLong ? 'textarea' : 'input', { ...common, autocomplete: 'off', spellcheck: 'false', value: typeof preset === 'string' ? preset : '' });
    return { input, read: (name) => (input.value === '' ? missing(name, input) : input.value) };
  }
  const text = preset === undefined ? '' : JSON.stringify(preset, null, 2);
  const example = kind === 'array' ? '[]' : kind === 'object' ? '{}' : 'null';
  const input = h('textarea', { ...common, class: 'mono', spellcheck: 'false', placeholder: example, value: text });
  return { input, read: (name) => jsonOf(name, input, kind) };
}

function missing(name, input) {
  if (input.required) throw new Misfit(`${name} is required`, input);
  return undefined;
}

function numberOf(name, input, kind) {
  const text = input.value.trim();
  if (text === '') return missing(name, input);
  const value = Number(text);
  if (!Number.isFinite(value) || (kind === 'integer' && !Number.isInteger(value))) throw new Misfit(`${name} must be ${kind === 'integer' ? 'a whole number' : 'a number'}`, input);
  return value;
}

function jsonOf(name, input, kind) {
  if (input.value.trim() === '') return missing(name, input);
  let value;
  try { value = JSON.parse(input.value); } catch (error) { throw new Misfit(`${name} is not JSON: ${error.message}`, input); }
  if (kind === 'array' && !Array.isArray(value)) throw new Misfit(`${name} must be a JSON array`, input);
  if (kind === 'object' && (value === null || typeof value !== 'object' || Array.isArray(value))) throw new Misfit(`${name} must be a JSON object`, input);
  return value;
}

function members(schema, depth) {
  const required = Array.isArray(schema.required) ? schema.required : [];
  const names = Object.keys(schema.properties).sort((a, b) => required.includes(b) - required.includes(a));
  const fields = names.map((name) => [name, field(name, schema.properties[name], required.includes(name), depth)]);
  const read = () => {
    const pairs = fields.map(([name, one]) => [name, one.read()]).filter(([, value]) => value !== undefined);
    return Object.fromEntries(pairs);
  };
  const element = h('div', { class: 'fields' }, fields.map(([, one]) => one.element));
  return { element, read };
}

/** A form for a value of `schema`: an element and `read`, which throws a Misfit. It can be turned into one JSON text. */
export function formOf(schema) {
  const canShow = isPlainObject(schema);
  const isEmpty = canShow && Object.keys(schema.properties).length === 0;
  let inner = canShow ? members(schema, 0) : null;
  const box = h('div', {}, inner?.element);
  const raw = h('textarea', { class: 'mono tall', 'aria-label': 'Arguments as JSON', spellcheck: 'false', value: '{}' });
  let isRaw = !canShow;
  const readRaw = () => {
    const value = jsonOf('arguments', raw, 'object');
    return value ?? {};
  };
  const toggle = button('As JSON', () => {
    if (!isRaw) { try { raw.value = JSON.stringify(inner.read(), null, 2); } catch { /* the form is not complete */ } }
    isRaw = !isRaw;
    toggle.textContent = isRaw ? 'As a form' : 'As JSON';
    fill(box, isRaw ? raw : inner.element);
  }, { class: 'plain small' });
  if (isRaw) fill(box, raw);
  const none = isEmpty && h('p', { class: 'quiet' }, 'This takes no arguments.');
  return { element: h('div', { class: 'form' }, none, box, canShow && !isEmpty && toggle), read: () => (isRaw ? readRaw() : inner.read()) };
}
