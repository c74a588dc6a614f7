// Parsing and writing of URLs, from the WHATWG URL standard. A record is
// {scheme, username, password, host, port, path, query, fragment}; host, port,
// query and fragment may be null; path is a list of segments, or a string for
// schemes that have no hierarchy.

const specialPorts = freeze({ __proto__: null, http: '80', https: '443', ws: '80', wss: '443', ftp: '21', file: '' });
const isSpecial = (url) => specialPorts[url.scheme] !== undefined;

const newRecord = (scheme) => ({
  __proto__: null, scheme, username: '', password: '', host: null, port: null, path: newList(), query: null, fragment: null,
});

const copyList = (list) => {
  const out = newList();
  for (let i = 0; i < list.length; i++) out[i] = list[i];
  return out;
};

// cleanInput takes control characters off the ends, and tabs and line breaks
// out of the middle.
const cleanInput = (s) => {
  let from = 0;
  let to = s.length;
  while (from < to && charCodeAt(s, from) <= 0x20) from++;
  while (to > from && charCodeAt(s, to - 1) <= 0x20) to--;
  return withoutBreaks(stringSlice(s, from, to));
};

const withoutBreaks = (s) => {
  let out = '';
  for (let i = 0; i < s.length; i++) if (s[i] !== '\t' && s[i] !== '\n' && s[i] !== '\r') out += s[i];
  return out;
};

const schemePattern = /^[A-Za-z][A-Za-z0-9+.-]*:/;
const drivePattern = /^[A-Za-z][:|](?:[/\\?#]|$)/;
const isDrive = (s) => s.length === 2 && regExpExec(drivePattern, s) !== null;
const startsWithDrive = (s) => regExpExec(drivePattern, s) !== null;

const isSlash = (c, special) => c === '/' || special && c === '\\';

const isSingleDot = (s) => s === '.' || toLowerCase(s) === '%2e';
const isDoubleDot = (s) => {
  const lower = toLowerCase(s);
  return lower === '..' || lower === '.%2e' || lower === '%2e.' || lower === '%2e%2e';
};

const shorten = (url) => {
  const { path } = url;
  if (url.scheme === 'file' && path.length === 1 && isDrive(path[0]) && path[0][1] === ':') return;
  if (path.length > 0) path.length -= 1;
};

// parsePath appends the segments of a text to the path of a record.
const parsePath = (url, text) => {
  const special = isSpecial(url);
  if (text === '' && !special) return;
  let from = isSlash(text[0], special) ? 1 : 0;
  for (;;) {
    let to = from;
    while (to < text.length && !isSlash(text[to], special)) to++;
    const segment = stringSlice(text, from, to);
    const last = to >= text.length;
    if (isDoubleDot(segment)) {
      shorten(url);
      if (last) url.path[url.path.length] = '';
    } else if (isSingleDot(segment)) {
      if (last) url.path[url.path.length] = '';
    } else if (url.scheme === 'file' && url.path.length === 0 && isDrive(segment)) {
      url.path[0] = segment[0] + ':';
    } else {
      url.path[url.path.length] = encodePercent(segment, keepPath);
    }
    if (last) return;
    from = to + 1;
  }
};

// parsePort sets the port from its digits; false when they are none.
const parsePort = (url, digits) => {
  if (digits === '') {
    url.port = null;
    return true;
  }
  if (!isDigits(digits) || NumberFunction(digits) > 65535) return false;
  const port = StringFunction(NumberFunction(digits));
  url.port = port === specialPorts[url.scheme] ? null : port;
  return true;
};

// splitHost takes a host and a port apart.
const splitHost = (text) => {
  let colon = -1;
  let inside = false;
  for (let i = 0; i < text.length && colon < 0; i++) {
    if (text[i] === '[') inside = true;
    else if (text[i] === ']') inside = false;
    else if (text[i] === ':' && !inside) colon = i;
  }
  return colon < 0
    ? { __proto__: null, host: text, port: null }
    : { __proto__: null, host: stringSlice(text, 0, colon), port: stringSlice(text, colon + 1) };
};

// parseAuthority reads user, host and port, then the path; false when broken.
const parseAuthority = (url, text) => {
  const special = isSpecial(url);
  let end = 0;
  while (end < text.length && !isSlash(text[end], special)) end++;
  let authority = stringSlice(text, 0, end);
  let at = -1;
  for (let i = 0; i < authority.length; i++) if (authority[i] === '@') at = i;
  if (at >= 0) {
    const user = stringSlice(authority, 0, at);
    const colon = stringIndexOf(user, ':');
    url.username = encodePercent(colon < 0 ? user : stringSlice(user, 0, colon), keepUserinfo);
    url.password = colon < 0 ? '' : encodePercent(stringSlice(user, colon + 1), keepUserinfo);
    authority = stringSlice(authority, at + 1);
  }
  const { host, port } = splitHost(authority);
  if (host === '') {
    if (special || at >= 0 || port !== null) return false;
    url.host = '';
  } else {
    url.host = parseHost(host, special);
    if (url.host === null) return false;
  }
  if (port !== null && !parsePort(url, port)) return false;
  parsePath(url, stringSlice(text, end));
  return true;
};

// parseFile reads what comes after file:, or a reference against a file base.
const parseFile = (url, text, base, hasQuery) => {
  const baseFile = base !== null && base.scheme === 'file' ? base : null;
  url.host = '';
  if (!isSlash(text[0], true)) {
    if (baseFile !== null) {
      url.host = baseFile.host;
      url.path = copyList(baseFile.path);
      if (text === '') {
        if (!hasQuery) url.query = baseFile.query;
        return true;
      }
      if (startsWithDrive(text)) url.path = newList();
      else shorten(url);
    }
    parsePath(url, text);
    return true;
  }
  if (!isSlash(text[1], true)) {
    if (baseFile !== null) {
      url.host = baseFile.host;
      const drive = baseFile.path[0];
      if (!startsWithDrive(stringSlice(text, 1)) && drive !== undefined && isDrive(drive)) url.path[0] = drive;
    }
    parsePath(url, text);
    return true;
  }
  let end = 2;
  while (end < text.length && !isSlash(text[end], true)) end++;
  const host = stringSlice(text, 2, end);
  if (isDrive(host)) {
    parsePath(url, '/' + stringSlice(text, 2));
    return true;
  }
  if (host !== '') {
    url.host = parseHost(host, true);
    if (url.host === null) return false;
    if (url.host === 'localhost') url.host = '';
  }
  parsePath(url, stringSlice(text, end));
  return true;
};

// parseRelative resolves a reference without a scheme of its own.
const parseRelative = (url, text, base, hasQuery) => {
  const special = isSpecial(url);
  if (isSlash(text[0], special) && isSlash(text[1], special)) {
    return parseAuthority(url, special ? afterSlashes(text) : stringSlice(text, 2));
  }
  url.username = base.username;
  url.password = base.password;
  url.host = base.host;
  url.port = base.port;
  if (!isSlash(text[0], special)) {
    url.path = copyList(base.path);
    if (text === '') {
      if (!hasQuery) url.query = base.query;
      return true;
    }
    shorten(url);
  }
  parsePath(url, text);
  return true;
};

const afterSlashes = (text) => {
  let from = 0;
  while (isSlash(text[from], true)) from++;
  return stringSlice(text, from);
};

// parseHierarchy reads everything between the scheme and the query.
const parseHierarchy = (url, text, base, hasScheme, hasQuery) => {
  if (url.scheme === 'file') return parseFile(url, text, base, hasQuery);
  if (!hasScheme) return parseRelative(url, text, base, hasQuery);
  if (isSpecial(url)) {
    if (base !== null && base.scheme === url.scheme && !(isSlash(text[0], true) && isSlash(text[1], true))) {
      return parseRelative(url, text, base, hasQuery);
    }
    return parseAuthority(url, afterSlashes(text));
  }
  if (startsWith(text, '//')) return parseAuthority(url, stringSlice(text, 2));
  if (text[0] === '/') parsePath(url, text);
  else url.path = encodePercent(text, keepC0);
  return true;
};

// parseURL gives the record of an address, null when it is not one.
const parseURL = (input, base) => {
  let text = cleanInput(input);
  const found = regExpExec(schemePattern, text);
  const scheme = found === null ? null : toLowerCase(stringSlice(found[0], 0, -1));
  if (scheme === null && base === null) return null;
  if (scheme !== null) text = stringSlice(text, found[0].length);
  const url = newRecord(scheme ?? base.scheme);
  const hash = stringIndexOf(text, '#');
  if (hash >= 0) {
    url.fragment = encodePercent(stringSlice(text, hash + 1), keepFragment);
    text = stringSlice(text, 0, hash);
  }
  if (scheme === null && typeof base.path === 'string') {
    if (text !== '' || hash < 0) return null;
    url.path = base.path;
    url.query = base.query;
    return url;
  }
  const mark = stringIndexOf(text, '?');
  if (mark >= 0) {
    url.query = encodePercent(stringSlice(text, mark + 1), isSpecial(url) ? keepSpecialQuery : keepQuery);
    text = stringSlice(text, 0, mark);
  }
  return parseHierarchy(url, text, base, scheme !== null, mark >= 0) ? url : null;
};

const pathOf = (url) => {
  if (typeof url.path === 'string') return url.path;
  let out = '';
  for (let i = 0; i < url.path.length; i++) out += '/' + url.path[i];
  return out;
};

const hostOf = (url) => (url.host ?? '') + (url.port === null ? '' : ':' + url.port);

const serializeURL = (url) => {
  let out = url.scheme + ':';
  if (url.host !== null) {
    out += '//';
    if (url.username !== '' || url.password !== '') {
      out += url.username + (url.password === '' ? '' : ':' + url.password) + '@';
    }
    out += hostOf(url);
  } else if (typeof url.path !== 'string' && url.path.length > 1 && url.path[0] === '') {
    out += '/.';
  }
  return out + pathOf(url) + (url.query === null ? '' : '?' + url.query) + (url.fragment === null ? '' : '#' + url.fragment);
};
