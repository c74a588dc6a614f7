// TextEncoder and TextDecoder (UTF-8, UTF-16LE and UTF-16BE).

const Uint8ArrayConstructor = Uint8Array;

const isHighSurrogate = (unit) => unit >= 0xd800 && unit < 0xdc00;
const isLowSurrogate = (unit) => unit >= 0xdc00 && unit < 0xe000;

// encodeUTF8 writes as many whole characters of s as fit.
const encodeUTF8 = (s, out) => {
  const room = out.length;
  let read = 0;
  let written = 0;
  while (read < s.length) {
    let code = charCodeAt(s, read);
    let units = 1;
    if (isHighSurrogate(code) && read + 1 < s.length && isLowSurrogate(charCodeAt(s, read + 1))) {
      code = codePointAt(s, read);
      units = 2;
    } else if (code >= 0xd800 && code < 0xe000) {
      code = 0xfffd;
    }
    const size = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    if (written + size > room) break;
    if (size === 1) {
      out[written++] = code;
    } else {
      out[written++] = (size === 2 ? 0xc0 : size === 3 ? 0xe0 : 0xf0) | code >> 6 * (size - 1);
      for (let i = size - 2; i >= 0; i--) out[written++] = 0x80 | code >> 6 * i & 0x3f;
    }
    read += units;
  }
  return { read, written };
};

const utf8Bytes = (s) => {
  const room = new Uint8ArrayConstructor(s.length * 3);
  const { written } = encodeUTF8(s, room);
  return new Uint8ArrayConstructor(bufferSlice(typedArrayBuffer(room), 0, written));
};

ordinary(globalThis, 'TextEncoder', class TextEncoder {
  get encoding() { return 'utf-8'; }
  encode(input = '') { return utf8Bytes(StringFunction(input)); }
  encodeInto(source, destination) { return encodeUTF8(StringFunction(source), destination); }
}, false);

// chunk collects characters and turns them into text in pieces.
const chunkUnits = 4096;
const newText = () => ({ __proto__: null, text: '', units: newList() });
const flushText = (out) => {
  if (out.units.length > 0) out.text += apply(fromCharCode, undefined, out.units);
  out.units.length = 0;
  return out.text;
};
const putUnit = (out, unit) => {
  out.units[out.units.length] = unit;
  if (out.units.length >= chunkUnits) flushText(out);
};
const putCode = (out, code) => {
  if (code < 0x10000) {
    putUnit(out, code);
    return;
  }
  putUnit(out, 0xd7c0 + (code >> 10));
  putUnit(out, 0xdc00 | code & 0x3ff);
};

const malformed = () => new TypeErrorConstructor('the encoded data was not valid');

// decodeUTF8 is the standard's decoder: a broken sequence is one U+FFFD for
// each of its maximal parts. state holds a sequence that is not complete yet.
const decodeUTF8 = (bytes, state, fatal, more, out) => {
  let { code, needed, low, high } = state;
  for (let i = 0; i < bytes.length; i++) {
    const byte = bytes[i];
    if (needed === 0) {
      low = 0x80;
      high = 0xbf;
      if (byte < 0x80) putUnit(out, byte);
      else if (byte >= 0xc2 && byte <= 0xdf) {
        needed = 1;
        code = byte & 0x1f;
      }
      else if (byte >= 0xe0 && byte <= 0xef) {
        if (byte === 0xe0) low = 0xa0;
        if (byte === 0xed) high = 0x9f;
        needed = 2;
        code = byte & 0xf;
      } else if (byte >= 0xf0 && byte <= 0xf4) {
        if (byte === 0xf0) low = 0x90;
        if (byte === 0xf4) high = 0x8f;
        needed = 3;
        code = byte & 7;
      } else if (fatal) throw malformed();
      else putUnit(out, 0xfffd);
      continue;
    }
    if (byte < low || byte > high) {
      if (fatal) throw malformed();
      putUnit(out, 0xfffd);
      needed = 0;
      i--;
      continue;
    }
    low = 0x80;
    high = 0xbf;
    code = code << 6 | byte & 0x3f;
    if (--needed === 0) putCode(out, code);
  }
  if (!more && needed > 0) {
    if (fatal) throw malformed();
    putUnit(out, 0xfffd);
    needed = 0;
  }
  return { __proto__: null, code, needed, low, high };
};

// decodeUTF16 joins pairs of bytes; half a surrogate pair is a U+FFFD.
const decodeUTF16 = (bytes, state, fatal, more, out, bigEndian) => {
  let { byte: first, unit: lead } = state;
  const broken = () => {
    if (fatal) throw malformed();
    putUnit(out, 0xfffd);
  };
  for (let i = 0; i < bytes.length; i++) {
    if (first < 0) {
      first = bytes[i];
      continue;
    }
    const unit = bigEndian ? first << 8 | bytes[i] : bytes[i] << 8 | first;
    first = -1;
    if (lead >= 0 && isLowSurrogate(unit)) {
      putUnit(out, lead);
      putUnit(out, unit);
      lead = -1;
      continue;
    }
    if (lead >= 0) broken();
    lead = -1;
    if (isHighSurrogate(unit)) lead = unit;
    else if (isLowSurrogate(unit)) broken();
    else putUnit(out, unit);
  }
  if (!more && (first >= 0 || lead >= 0)) {
    broken();
    first = -1;
    lead = -1;
  }
  return { __proto__: null, byte: first, unit: lead };
};

const bytesOf = (input) => {
  if (input === undefined) return new Uint8ArrayConstructor(0);
  if (!isView(input)) return new Uint8ArrayConstructor(bufferSlice(input, 0));
  const data = typedArrayName(input) === undefined;
  const length = data ? viewLength(input) : typedArrayByteLength(input);
  return data
    ? new Uint8ArrayConstructor(viewBuffer(input), viewOffset(input), length)
    : new Uint8ArrayConstructor(typedArrayBuffer(input), typedArrayOffset(input), length);
};
const typedArrayByteLength = uncurry(getOwnPropertyDescriptor(typedArrayPrototype, 'byteLength').get);

const encodingLabels = freeze({
  __proto__: null, 'utf-8': 'utf-8', utf8: 'utf-8', 'unicode-1-1-utf-8': 'utf-8',
  'utf-16': 'utf-16le', 'utf-16le': 'utf-16le', 'utf-16be': 'utf-16be',
});

ordinary(globalThis, 'TextDecoder', class TextDecoder {
  #encoding;
  #fatal;
  #ignoreBOM;
  #state = null;
  #started = false;

  constructor(label = 'utf-8', options = {}) {
    const encoding = encodingLabels[toLowerCase(stringTrim(StringFunction(label)))];
    if (encoding === undefined) throw new RangeErrorConstructor('the encoding "' + label + '" is not there');
    this.#encoding = encoding;
    this.#fatal = !!options?.fatal;
    this.#ignoreBOM = !!options?.ignoreBOM;
  }
  get encoding() { return this.#encoding; }
  get fatal() { return this.#fatal; }
  get ignoreBOM() { return this.#ignoreBOM; }

  decode(input, options) {
    const more = !!options?.stream;
    const out = newText();
    const bytes = bytesOf(input);
    const state = this.#state;
    this.#state = null;
    if (this.#encoding === 'utf-8') {
      const start = state ?? { __proto__: null, code: 0, needed: 0, low: 0x80, high: 0xbf };
      this.#state = decodeUTF8(bytes, start, this.#fatal, more, out);
    } else {
      const start = state ?? { __proto__: null, byte: -1, unit: -1 };
      this.#state = decodeUTF16(bytes, start, this.#fatal, more, out, this.#encoding === 'utf-16be');
    }
    let text = flushText(out);
    if (!this.#started && text !== '') {
      if (!this.#ignoreBOM && charCodeAt(text, 0) === 0xfeff) text = stringSlice(text, 1);
      this.#started = true;
    }
    if (!more) {
      this.#state = null;
      this.#started = false;
    }
    return text;
  }
}, false);
