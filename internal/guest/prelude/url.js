// URL and URLSearchParams.

const keepForm = (unit, c) =>
  c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' || c === '*' || c === '-' || c === '.' || c === '_';

const encodeForm = (s) => {
  const parts = split(s, ' ');
  let out = '';
  for (let i = 0; i < parts.length; i++) out += (i > 0 ? '+' : '') + encodePercent(parts[i], keepForm);
  return out;
};

const decodeForm = (s) => {
  const parts = split(s, '+');
  let out = parts[0];
  for (let i = 1; i < parts.length; i++) out += ' ' + parts[i];
  return decodePercent(out);
};

// wellFormed is a text without halves of surrogate pairs.
const wellFormed = uncurry(String.prototype.toWellFormed);
const usv = (value) => wellFormed(StringFunction(value));

// parseForm gives the pairs of a query, as a list of {name, value}.
const parseForm = (text) => {
  const pairs = newList();
  const parts = split(text, '&');
  for (let i = 0; i < parts.length; i++) {
    if (parts[i] === '') continue;
    const equals = stringIndexOf(parts[i], '=');
    const name = equals < 0 ? parts[i] : stringSlice(parts[i], 0, equals);
    const value = equals < 0 ? '' : stringSlice(parts[i], equals + 1);
    pairs[pairs.length] = { __proto__: null, name: decodeForm(name), value: decodeForm(value) };
  }
  return pairs;
};

// pairsFrom reads what URLSearchParams is made from.
const pairsFrom = (init) => {
  if (typeof init !== 'object' && typeof init !== 'function' || init === null) {
    const text = usv(init);
    return parseForm(text[0] === '?' ? stringSlice(text, 1) : text);
  }
  const pairs = newList();
  if (init[SymbolIterator] !== undefined && init[SymbolIterator] !== null) {
    for (const pair of init) {
      const both = [...pair];
      if (both.length !== 2) throw new TypeErrorConstructor('each pair must have a name and a value');
      pairs[pairs.length] = { __proto__: null, name: usv(both[0]), value: usv(both[1]) };
    }
    return pairs;
  }
  const names = objectKeys(init);
  for (let i = 0; i < names.length; i++) {
    pairs[pairs.length] = { __proto__: null, name: usv(names[i]), value: usv(init[names[i]]) };
  }
  return pairs;
};

// linkParams ties the parameters of a URL to it; it is set by the class, which
// alone can reach its private fields.
let linkParams;
let refillParams;

class URLSearchParamsClass {
  #pairs = newList();
  #changed = null;

  static {
    linkParams = (params, changed) => { params.#changed = changed; };
    refillParams = (params, query) => { params.#pairs = query === null ? newList() : parseForm(query); };
  }

  constructor(init = '') { this.#pairs = pairsFrom(init); }

  #update() { if (this.#changed !== null) this.#changed(this.toString()); }

  get size() { return this.#pairs.length; }

  append(name, value) {
    this.#pairs[this.#pairs.length] = { __proto__: null, name: usv(name), value: usv(value) };
    this.#update();
  }

  delete(name, value) {
    const kept = newList();
    const wanted = usv(name);
    const only = value === undefined ? undefined : usv(value);
    for (let i = 0; i < this.#pairs.length; i++) {
      const pair = this.#pairs[i];
      if (pair.name !== wanted || only !== undefined && pair.value !== only) kept[kept.length] = pair;
    }
    this.#pairs = kept;
    this.#update();
  }

  get(name) {
    const wanted = usv(name);
    for (let i = 0; i < this.#pairs.length; i++) if (this.#pairs[i].name === wanted) return this.#pairs[i].value;
    return null;
  }

  getAll(name) {
    const wanted = usv(name);
    const out = [];
    for (let i = 0; i < this.#pairs.length; i++) if (this.#pairs[i].name === wanted) append(out, this.#pairs[i].value);
    return out;
  }

  has(name, value) {
    const wanted = usv(name);
    const only = value === undefined ? undefined : usv(value);
    for (let i = 0; i < this.#pairs.length; i++) {
      if (this.#pairs[i].name === wanted && (only === undefined || this.#pairs[i].value === only)) return true;
    }
    return false;
  }

  set(name, value) {
    const wanted = usv(name);
    const kept = newList();
    let found = false;
    for (let i = 0; i < this.#pairs.length; i++) {
      const pair = this.#pairs[i];
      if (pair.name !== wanted) kept[kept.length] = pair;
      else if (!found) kept[kept.length] = { __proto__: null, name: wanted, value: usv(value) };
      found ||= pair.name === wanted;
    }
    if (!found) kept[kept.length] = { __proto__: null, name: wanted, value: usv(value) };
    this.#pairs = kept;
    this.#update();
  }

  sort() {
    arraySort(this.#pairs, (a, b) => (a.name < b.name ? -1 : a.name > b.name ? 1 : 0));
    this.#update();
  }

  forEach(callback, thisArg) {
    for (let i = 0; i < this.#pairs.length; i++) apply(callback, thisArg, [this.#pairs[i].value, this.#pairs[i].name, this]);
  }

  #list(pick) {
    const out = [];
    for (let i = 0; i < this.#pairs.length; i++) append(out, pick(this.#pairs[i]));
    return arrayValues(out);
  }

  entries() { return this.#list((pair) => [pair.name, pair.value]); }
  keys() { return this.#list((pair) => pair.name); }
  values() { return this.#list((pair) => pair.value); }

  toString() {
    let out = '';
    for (let i = 0; i < this.#pairs.length; i++) {
      out += (i > 0 ? '&' : '') + encodeForm(this.#pairs[i].name) + '=' + encodeForm(this.#pairs[i].value);
    }
    return out;
  }
}
const searchParamsPrototype = URLSearchParamsClass.prototype;
ordinary(searchParamsPrototype, SymbolIterator, searchParamsPrototype.entries, false);

const invalidURL = (input) => new TypeErrorConstructor('Invalid URL: ' + clip(input));

// parseWithBase parses an address, against a base if there is one.
const parseWithBase = (input, base) => {
  if (base === undefined) return parseURL(usv(input), null);
  const parsed = parseURL(usv(base), null);
  return parsed === null ? null : parseURL(usv(input), parsed);
};

class URLClass {
  #url;
  #params = null;

  constructor(input, base) {
    this.#url = parseWithBase(input, base);
    if (this.#url === null) throw invalidURL(StringFunction(input));
  }

  static canParse(input, base) { return parseWithBase(input, base) !== null; }
  static parse(input, base) { return parseWithBase(input, base) === null ? null : new URLClass(input, base); }

  #refill() { if (this.#params !== null) refillParams(this.#params, this.#url.query); }
  #hasNoHost() { return this.#url.host === null || this.#url.host === '' || this.#url.scheme === 'file'; }

  get href() { return serializeURL(this.#url); }
  set href(value) {
    const parsed = parseURL(usv(value), null);
    if (parsed === null) throw invalidURL(StringFunction(value));
    this.#url = parsed;
    this.#refill();
  }

  get origin() {
    const url = this.#url;
    if (url.scheme === 'blob') {
      const inner = parseURL(pathOf(url), null);
      return inner !== null && (inner.scheme === 'http' || inner.scheme === 'https') ? inner.scheme + '://' + hostOf(inner) : 'null';
    }
    return isSpecial(url) && url.scheme !== 'file' ? url.scheme + '://' + hostOf(url) : 'null';
  }

  get protocol() { return this.#url.scheme + ':'; }
  set protocol(value) {
    const found = regExpExec(schemePattern, usv(value) + ':');
    if (found === null) return;
    const scheme = toLowerCase(stringSlice(found[0], 0, -1));
    const url = this.#url;
    const special = specialPorts[scheme] !== undefined;
    if (special !== isSpecial(url)) return;
    if (scheme === 'file' && (url.username !== '' || url.password !== '' || url.port !== null)) return;
    if (url.scheme === 'file' && url.host === '') return;
    url.scheme = scheme;
    if (url.port === specialPorts[scheme]) url.port = null;
  }

  get username() { return this.#url.username; }
  set username(value) { if (!this.#hasNoHost()) this.#url.username = encodePercent(usv(value), keepUserinfo); }
  get password() { return this.#url.password; }
  set password(value) { if (!this.#hasNoHost()) this.#url.password = encodePercent(usv(value), keepUserinfo); }

  get host() { return hostOf(this.#url); }
  set host(value) { this.#setHost(usv(value), true); }
  get hostname() { return this.#url.host ?? ''; }
  set hostname(value) { this.#setHost(usv(value), false); }

  #setHost(text, withPort) {
    const url = this.#url;
    if (typeof url.path === 'string') return;
    const special = isSpecial(url);
    const clean = withoutBreaks(text);
    let end = 0;
    while (end < clean.length && !isSlash(clean[end], special) && clean[end] !== '?' && clean[end] !== '#') end++;
    const { host, port } = splitHost(stringSlice(clean, 0, end));
    if (port !== null && (!withPort || url.scheme === 'file')) return;
    if (host === '') {
      if (special && url.scheme !== 'file' || url.username !== '' || url.password !== '' || url.port !== null || port !== null) return;
      url.host = '';
      return;
    }
    const parsed = parseHost(host, special);
    if (parsed === null) return;
    url.host = url.scheme === 'file' && parsed === 'localhost' ? '' : parsed;
    if (port !== null && port !== '') this.port = port;
  }

  get port() { return this.#url.port ?? ''; }
  set port(value) {
    if (this.#hasNoHost()) return;
    const text = withoutBreaks(usv(value));
    let end = 0;
    while (end < text.length && text[end] >= '0' && text[end] <= '9') end++;
    if (text === '' || end > 0) parsePort(this.#url, stringSlice(text, 0, end));
  }

  get pathname() { return pathOf(this.#url); }
  set pathname(value) {
    const url = this.#url;
    if (typeof url.path === 'string') return;
    url.path = newList();
    const text = withoutBreaks(usv(value));
    if (text !== '' || isSpecial(url)) parsePath(url, isSlash(text[0], isSpecial(url)) ? text : '/' + text);
  }

  get search() { return this.#url.query === null || this.#url.query === '' ? '' : '?' + this.#url.query; }
  set search(value) {
    const text = withoutBreaks(usv(value));
    const query = text[0] === '?' ? stringSlice(text, 1) : text;
    this.#url.query = text === '' ? null : encodePercent(query, isSpecial(this.#url) ? keepSpecialQuery : keepQuery);
    this.#refill();
  }

  get searchParams() {
    if (this.#params === null) {
      this.#params = new URLSearchParamsClass();
      refillParams(this.#params, this.#url.query);
      linkParams(this.#params, (query) => { this.#url.query = query === '' ? null : query; });
    }
    return this.#params;
  }

  get hash() { return this.#url.fragment === null || this.#url.fragment === '' ? '' : '#' + this.#url.fragment; }
  set hash(value) {
    const text = withoutBreaks(usv(value));
    this.#url.fragment = text === '' ? null : encodePercent(text[0] === '#' ? stringSlice(text, 1) : text, keepFragment);
  }

  toString() { return this.href; }
  toJSON() { return this.href; }
}

for (const [name, constructor] of [['URL', URLClass], ['URLSearchParams', URLSearchParamsClass]]) {
  defineProperty(constructor, 'name', { __proto__: null, value: name, configurable: true });
  defineProperty(constructor.prototype, SymbolToStringTag, { __proto__: null, value: name, configurable: true });
  ordinary(globalThis, name, constructor, false);
}
