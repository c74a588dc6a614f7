// The host of a URL: domains, IPv4 and IPv6 addresses. From the WHATWG URL
// standard, but for internationalised names, which get NFKC, lower case and
// Punycode instead of the whole of UTS 46.

const hex = '0123456789ABCDEF';
const percent = (byte) => '%' + hex[byte >> 4] + hex[byte & 15];

// encodePercent writes the characters that `keep` does not take as the
// percent-encoded bytes of their UTF-8.
const encodePercent = (s, keep) => {
  let out = '';
  for (let i = 0; i < s.length; i++) {
    const unit = charCodeAt(s, i);
    if (unit < 0x80) {
      out += keep(unit, s[i]) ? s[i] : percent(unit);
      continue;
    }
    const whole = isHighSurrogate(unit) && i + 1 < s.length && isLowSurrogate(charCodeAt(s, i + 1));
    const bytes = utf8Bytes(whole ? s[i] + s[i + 1] : s[i]);
    if (whole) i++;
    for (let k = 0; k < bytes.length; k++) out += percent(bytes[k]);
  }
  return out;
};

const outside = (characters) => (unit, c) => unit > 0x20 && unit < 0x7f && stringIndexOf(characters, c) < 0;
const keepC0 = (unit) => unit >= 0x20 && unit < 0x7f;
const keepFragment = outside('"<>`');
const keepQuery = outside('"#<>');
const keepSpecialQuery = outside('"#<>\'');
const keepPath = outside('"#<>?^`{}');
const keepUserinfo = outside('"#<>?^`{}/:;=@[\\]|');

const hexValue = (s, i) => {
  const at = i < s.length ? stringIndexOf('0123456789abcdef', toLowerCase(s[i])) : -1;
  return at;
};

// decodePercent turns percent-encoded bytes back, as UTF-8.
const decodePercent = (s) => {
  if (stringIndexOf(s, '%') < 0) return s;
  const raw = utf8Bytes(s);
  const bytes = new Uint8ArrayConstructor(raw.length);
  let length = 0;
  for (let i = 0; i < raw.length; i++) {
    const text = raw[i] === 0x25 && i + 2 < raw.length ? fromCharCode(raw[i + 1], raw[i + 2]) : '';
    const high = hexValue(text, 0);
    const low = hexValue(text, 1);
    if (high >= 0 && low >= 0) {
      bytes[length++] = high << 4 | low;
      i += 2;
    } else {
      bytes[length++] = raw[i];
    }
  }
  const out = newText();
  const start = { __proto__: null, code: 0, needed: 0, low: 0x80, high: 0xbf };
  decodeUTF8(new Uint8ArrayConstructor(bufferSlice(typedArrayBuffer(bytes), 0, length)), start, false, false, out);
  return flushText(out);
};

// punycode is RFC 3492 for one label.
const punycode = (label) => {
  const points = newList();
  let out = '';
  for (let i = 0; i < label.length; i++) {
    const point = codePointAt(label, i);
    if (point > 0xffff) i++;
    points[points.length] = point;
    if (point < 0x80) out += fromCharCode(point);
  }
  const basic = out.length;
  if (basic > 0) out += '-';
  let n = 128;
  let delta = 0;
  let bias = 72;
  let handled = basic;
  while (handled < points.length) {
    let next = 0x10ffff;
    for (let i = 0; i < points.length; i++) if (points[i] >= n) next = min(next, points[i]);
    delta += (next - n) * (handled + 1);
    n = next;
    for (let i = 0; i < points.length; i++) {
      if (points[i] < n) delta++;
      if (points[i] !== n) continue;
      let q = delta;
      for (let k = 36; ; k += 36) {
        const t = k <= bias ? 1 : k >= bias + 26 ? 26 : k - bias;
        if (q < t) break;
        out += punycodeDigit(t + (q - t) % (36 - t));
        q = floor((q - t) / (36 - t));
      }
      out += punycodeDigit(q);
      bias = adaptBias(delta, handled + 1, handled === basic);
      delta = 0;
      handled++;
    }
    delta++;
    n++;
  }
  return out;
};

const punycodeDigit = (d) => fromCharCode(d < 26 ? d + 97 : d + 22);
const adaptBias = (delta, points, first) => {
  delta = first ? floor(delta / 700) : floor(delta / 2);
  delta += floor(delta / points);
  let k = 0;
  for (; delta > 455; k += 36) delta = floor(delta / 35);
  return k + floor(36 * delta / (delta + 38));
};

// toASCII gives the ASCII form of a domain, null when it has none.
const toASCII = (domain) => {
  let ascii = true;
  for (let i = 0; i < domain.length && ascii; i++) ascii = charCodeAt(domain, i) < 0x80;
  if (ascii) return toLowerCase(domain);
  let mapped = '';
  for (let i = 0; i < domain.length; i++) {
    const unit = charCodeAt(domain, i);
    if (unit === 0x3002 || unit === 0xff0e || unit === 0xff61) mapped += '.';
    else if (unit !== 0xad && unit !== 0x200b && unit !== 0x2060 && unit !== 0xfeff) mapped += domain[i];
  }
  const labels = split(normalize(toLowerCase(normalize(mapped, 'NFKC')), 'NFC'), '.');
  let out = '';
  for (let i = 0; i < labels.length; i++) {
    let plain = true;
    for (let k = 0; k < labels[i].length && plain; k++) plain = charCodeAt(labels[i], k) < 0x80;
    out += (i > 0 ? '.' : '') + (plain ? labels[i] : 'xn--' + punycode(labels[i]));
  }
  return out;
};

// numberOf reads a part of an IPv4 address, NaN when it is none.
const numberOf = (part) => {
  if (part === '') return NaN;
  let digits = part;
  let radix = 10;
  if (startsWith(part, '0x') || startsWith(part, '0X')) {
    digits = stringSlice(part, 2);
    radix = 16;
  } else if (part.length > 1 && part[0] === '0') {
    digits = stringSlice(part, 1);
    radix = 8;
  }
  let value = 0;
  for (let i = 0; i < digits.length; i++) {
    const d = hexValue(digits, i);
    if (d < 0 || d >= radix) return NaN;
    value = value * radix + d;
  }
  return value;
};

const isDigits = (s) => {
  for (let i = 0; i < s.length; i++) if (s[i] < '0' || s[i] > '9') return false;
  return s !== '';
};

// parseIPv4 gives the address as text, undefined for a name that is no
// address, null for a broken one.
const parseIPv4 = (host) => {
  const parts = split(host, '.');
  if (parts.length > 1 && parts[parts.length - 1] === '') parts.length -= 1;
  const last = parts[parts.length - 1];
  if (!isDigits(last) && !(numberOf(last) >= 0 && stringIndexOf(toLowerCase(last), '0x') === 0)) return undefined;
  if (parts.length > 4) return null;
  let address = 0;
  for (let i = 0; i < parts.length; i++) {
    const value = numberOf(parts[i]);
    const final = i === parts.length - 1;
    if (!(value >= 0) || value >= (final ? 256 ** (5 - parts.length) : 256)) return null;
    address += value * (final ? 1 : 256 ** (3 - i));
  }
  return floor(address / 16777216) + '.' + (floor(address / 65536) & 255) + '.' + (floor(address / 256) & 255) + '.' + address % 256;
};

// parseIPv6 gives the pieces of an address, null for a broken one.
const parseIPv6 = (text) => {
  const pieces = newList();
  for (let i = 0; i < 8; i++) pieces[i] = 0;
  let piece = 0;
  let compress = -1;
  let i = 0;
  if (text[0] === ':') {
    if (text[1] !== ':') return null;
    i = 2;
    piece = 1;
    compress = 1;
  }
  while (i < text.length) {
    if (piece === 8) return null;
    if (text[i] === ':') {
      if (compress >= 0) return null;
      i++;
      piece++;
      compress = piece;
      continue;
    }
    let value = 0;
    let length = 0;
    for (; length < 4 && hexValue(text, i) >= 0; i++, length++) value = value * 16 + hexValue(text, i);
    if (text[i] === '.') {
      const tail = length === 0 || piece > 6 ? null : tailIPv4(stringSlice(text, i - length));
      if (tail === null) return null;
      pieces[piece] = floor(tail / 65536);
      pieces[piece + 1] = tail % 65536;
      piece += 2;
      i = text.length;
      break;
    }
    if (text[i] === ':') {
      i++;
      if (i === text.length) return null;
    } else if (i < text.length) {
      return null;
    }
    pieces[piece] = value;
    piece++;
  }
  if (compress >= 0) {
    let swaps = piece - compress;
    piece = 7;
    while (piece !== 0 && swaps > 0) {
      const other = compress + swaps - 1;
      const held = pieces[other];
      pieces[other] = pieces[piece];
      pieces[piece] = held;
      piece--;
      swaps--;
    }
  } else if (piece !== 8) {
    return null;
  }
  return pieces;
};

// tailIPv4 reads the dotted end of an IPv6 address.
const tailIPv4 = (text) => {
  const parts = split(text, '.');
  if (parts.length !== 4) return null;
  let address = 0;
  for (let i = 0; i < 4; i++) {
    const part = parts[i];
    if (!isDigits(part) || part.length > 3 || part.length > 1 && part[0] === '0' || NumberFunction(part) > 255) return null;
    address = address * 256 + NumberFunction(part);
  }
  return address;
};

const serializeIPv6 = (pieces) => {
  let best = -1;
  let bestLength = 1;
  for (let i = 0; i < 8; i++) {
    let length = 0;
    while (i + length < 8 && pieces[i + length] === 0) length++;
    if (length > bestLength) {
      best = i;
      bestLength = length;
    }
  }
  let out = '';
  for (let i = 0; i < 8; i++) {
    if (i === best) {
      out += i === 0 ? '::' : ':';
      i += bestLength - 1;
      continue;
    }
    out += numberToString(pieces[i], 16) + (i < 7 ? ':' : '');
  }
  return '[' + out + ']';
};

const forbiddenInHosts = '\0\t\n\r #/:<>?@[\\]^|';

const hasForbidden = (host, domain) => {
  for (let i = 0; i < host.length; i++) {
    const unit = charCodeAt(host, i);
    if (stringIndexOf(forbiddenInHosts, host[i]) >= 0) return true;
    if (domain && (unit < 0x20 || unit === 0x25 || unit === 0x7f)) return true;
  }
  return false;
};

// parseHost gives the serialised host, null when it is not one.
const parseHost = (text, special) => {
  if (text[0] === '[') {
    if (stringSlice(text, -1) !== ']') return null;
    const pieces = parseIPv6(stringSlice(text, 1, -1));
    return pieces === null ? null : serializeIPv6(pieces);
  }
  if (!special) return hasForbidden(text, false) ? null : encodePercent(text, keepC0);
  const domain = toASCII(decodePercent(text));
  if (domain === null || domain === '' || hasForbidden(domain, true)) return null;
  const address = parseIPv4(domain);
  return address === undefined ? domain : address;
};
