// How guest values become JSON text, and how errors become words.

// maxFlatJSON is the longest text that cannot nest deeper than the host's
// bound of 512 levels: each level takes two characters.
const maxFlatJSON = 1024;
const fits = (json) => json.length <= maxFlatJSON || native.measure(json) >= 0;

// measure gives the bytes of a JSON text, or a number below them when they are
// at most `bound` in any case; -1 when it nests too deep.
const measure = (json, bound) =>
  (json.length <= maxFlatJSON && json.length * 3 <= bound ? json.length : native.measure(json));

// quote is for strings only: for an object the engine would look for a toJSON,
// and keep its path in an array that inherits the guest's setters.
const quote = jsonStringify;
const quoteList = (strings) => {
  let text = '[';
  for (let i = 0; i < strings.length; i++) text += (i > 0 ? ',' : '') + quote(strings[i]);
  return text + ']';
};

// A toJSON on one of these prototypes is the guest's tampering with all values
// at once, not a value's own wish; it is not called.
const sharedPrototypes = freeze(setPrototypeOf([ObjectPrototype, ArrayPrototype, FunctionPrototype], null));

// jsonIsIntact says whether the engine's JSON.stringify meets nothing of the
// guest's but the value. Properties that are numbers come first in a list of
// keys, and make Array.prototype longer.
const jsonIsIntact = () =>
  !hasOwn(ObjectPrototype, 'toJSON') && !hasOwn(ArrayPrototype, 'toJSON') &&
  !hasOwn(FunctionPrototype, 'toJSON') &&
  DatePrototype.toJSON === dateToJSON && DatePrototype.toISOString === dateToISOString &&
  ArrayPrototype.length === 0 && ownKeys(ObjectPrototype)[0] === firstObjectKey;
const firstObjectKey = ownKeys(ObjectPrototype)[0];

const isDate = (value) => {
  try {
    dateGetTime(value);
    return true;
  } catch {
    return false;
  }
};

// findToJSON gives the method by which a value says what its JSON is.
const findToJSON = (value) => {
  for (let holder = value; holder !== null; holder = getPrototypeOf(holder)) {
    if (!hasOwn(holder, 'toJSON')) continue;
    for (let i = 0; i < sharedPrototypes.length; i++) {
      if (holder === sharedPrototypes[i]) return undefined;
    }
    if (holder === DatePrototype && isDate(value)) {
      const time = dateGetTime(value);
      return () => (time === time ? dateISO(value) : null);
    }
    return value.toJSON;
  }
  return undefined;
};

const unbox = (value) => {
  const unboxers = [numberValue, stringValue, booleanValue];
  for (let i = 0; i < 3; i++) {
    try {
      return apply(unboxers[i], undefined, [value]);
    } catch {
      // not this kind of box
    }
  }
  return value;
};

// stringifyGuarded is JSON.stringify for a realm whose shared prototypes have
// been changed. It is slow and only used then.
const stringifyGuarded = (value, key, parents) => {
  if (typeof value === 'object' && value !== null || typeof value === 'function') {
    const toJSON = findToJSON(value);
    if (typeof toJSON === 'function') value = apply(toJSON, value, [key]);
  }
  if (typeof value === 'object' && value !== null) value = unbox(value);
  if (typeof value !== 'object' || value === null) return jsonStringify(value);
  for (let p = parents; p !== null; p = p.next) {
    if (p.value === value) throw new TypeErrorConstructor('circular reference');
  }
  parents = { __proto__: null, value, next: parents };
  let text = '';
  if (isArray(value)) {
    const length = value.length;
    for (let i = 0; i < length; i++) {
      text += (i > 0 ? ',' : '') + (stringifyGuarded(value[i], StringFunction(i), parents) ?? 'null');
    }
    return '[' + text + ']';
  }
  const names = objectKeys(value);
  for (let i = 0; i < names.length; i++) {
    const member = stringifyGuarded(value[names[i]], names[i], parents);
    if (member === undefined) continue;
    text += (text === '' ? '' : ',') + quote(names[i]) + ':' + member;
  }
  return '{' + text + '}';
};

// stringify is JSON.stringify as it was before any guest code ran.
const stringify = (value) => (jsonIsIntact() ? jsonStringify(value) : stringifyGuarded(value, '', null));

// tagOf is what is left of a value that has no JSON. A value's own toString is
// asked, the general ones are not.
const tagOf = (value) => {
  if (typeof value !== 'object' && typeof value !== 'function' || value === null) return StringFunction(value);
  const toString = value.toString;
  let general = typeof toString !== 'function' || toString === ObjectPrototype.toString;
  for (let i = 0; i < builtinToStrings.length && !general; i++) general = toString === builtinToStrings[i];
  return general ? objectToString(value) : StringFunction(value);
};

// safeJSON is the JSON text of a value's safe form. It throws only what the
// value's own traps and getters throw when even its tag is asked for.
const safeJSON = (value) => {
  if (value === undefined) return 'null';
  let text;
  try {
    text = stringify(value);
  } catch {
    if (isError(value)) {
      return '{"name":' + quote(StringFunction(value.name)) + ',"message":' + quote(StringFunction(value.message)) + '}';
    }
    return quote(tagOf(value));
  }
  if (text === undefined) return 'null';
  return fits(text) ? text : quote(tagOf(value));
};

// displayText is a value as text() and console show it.
const displayText = (value) => (typeof value === 'string' ? value : safeJSON(value));

// maxErrorText bounds what is taken of a guest's error, in UTF-16 units.
const maxErrorText = 16384;
const clip = (s) => (s.length > maxErrorText ? stringSlice(s, 0, maxErrorText) : s);

// textOf reads a property of an error as text. Errors are the guest's and may
// be booby-trapped.
const textOf = (error, property, missing) => {
  try {
    const value = error[property];
    return value === undefined ? missing : clip(StringFunction(value));
  } catch {
    return missing;
  }
};

const stackOf = (error) => {
  // An error of the host carries the stack of its call as its own.
  const own = getOwnPropertyDescriptor(error, 'stack');
  const stack = own !== undefined && typeof own.value === 'string' ? own.value : errorStack(error);
  return typeof stack === 'string' ? clip(stack) : '';
};

// describeError gives {name, message, text, stack} of anything thrown. It never
// throws itself.
const describeError = (reason) => {
  if (!isError(reason)) {
    let shown = 'a value that cannot be shown';
    try {
      shown = clip(showThrown(reason));
    } catch {
      // as it says
    }
    return { __proto__: null, name: 'Error', message: shown, text: shown, stack: '' };
  }
  const name = textOf(reason, 'name', 'Error');
  const message = textOf(reason, 'message', '');
  const text = name === '' || message === '' ? name + message : name + ': ' + message;
  return { __proto__: null, name, message, text, stack: stackOf(reason) };
};

const showThrown = (reason) => {
  try {
    return domExceptionName(reason) + ': ' + domExceptionMessage(reason);
  } catch {
    // anything else
  }
  if (typeof reason === 'string') return reason;
  if (typeof reason === 'function') return objectToString(reason);
  if (typeof reason !== 'object' || reason === null) return StringFunction(reason);
  return safeJSON(reason);
};

// cellFrames drops from a stack the frames that are not the guest's.
const cellFrames = (stack) => {
  if (typeof stack !== 'string') return '';
  const lines = split(stack, '\n');
  let out = '';
  for (let i = 0; i < lines.length; i++) {
    if (lines[i] === '' || stringIndexOf(lines[i], '<cellblock>') >= 0 || stringIndexOf(lines[i], '(native)') >= 0) continue;
    out += lines[i] + '\n';
  }
  return out;
};
