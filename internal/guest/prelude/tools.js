// ALL_TOOLS and tools.

lazily('ALL_TOOLS', () => {
  const list = part('tools');
  for (let i = 0; i < list.length; i++) freeze(list[i]); // all their members are text
  return freeze(list);
});

const toolHelpers = freeze({
  __proto__: null,
  search: freeze((query, options) => promising(() =>
    request('search', '[' + quote(requireString(query, 'search query')) + ',' + inputJSON(options, 'null') + ']'))),
  describe: freeze((id) => promising(() =>
    request('describe', '[' + quote(requireString(id, 'describe id')) + ']'))),
  call: freeze((id, input) => promising(() =>
    request('call', '[' + quote(requireString(id, 'call id')) + ',' + inputJSON(input, '{}') + ']'))),
  callValue: freeze((id, input) => promising(() =>
    request('callValue', '[' + quote(requireString(id, 'callValue id')) + ',' + inputJSON(input, '{}') + ']'))),
});

const toolShortcut = (id) => freeze((input) => promising(() =>
  request('callValue', '[' + quote(id) + ',' + inputJSON(input, '{}') + ']')));

// The language itself calls a `then` on every await and a `toJSON` on every
// JSON.stringify. No tool ever stands there.
const calledByTheLanguage = (name) => name === 'then' || name === 'toJSON';

// The names of the tools are fetched when a property that is no helper is
// touched, so `tools` is a proxy. Once anything asks for more than one property
// (its keys, whether it is frozen) the target is completed and frozen; then the
// traps go, and what is left is as fast as an object.
const toolsTarget = { __proto__: null };
for (const name in toolHelpers) constant(toolsTarget, name, toolHelpers[name]);
let shortcutsText = null;

// forgetShortcuts ends a turn: the text is no part of snapshots.
const forgetShortcuts = () => { shortcutsText = null; };

// findShortcut looks a name up in the text of the part, which is a list of
// ["name","id"] without white space: parsing a thousand pairs for one of them
// would take longer than most cells run. Inside a string of JSON no quote
// stands without a backslash, so that the text found is a pair.
const findShortcut = (name) => {
  if (calledByTheLanguage(name)) return undefined;
  if (shortcutsText === null) shortcutsText = native.need('shortcuts');
  const head = '[' + quote(name) + ',"';
  const at = stringIndexOf(shortcutsText, head);
  if (at < 0) return undefined;
  const from = at + head.length - 1;
  let to = from + 1;
  while (shortcutsText[to] !== '"') to += shortcutsText[to] === '\\' ? 2 : 1;
  return installShortcut(name, jsonParse(stringSlice(shortcutsText, from, to + 1)));
};

const installShortcut = (name, id) => {
  // A plain property: nobody but the proxy sees the target before it is frozen.
  return (toolsTarget[name] = toolShortcut(id));
};

const completeTools = () => {
  const pairs = jsonParse(shortcutsText ?? native.need('shortcuts'));
  shortcutsText = null;
  for (let i = 0; i < pairs.length; i++) {
    const name = pairs[i][0];
    if (!calledByTheLanguage(name) && !hasOwn(toolsTarget, name)) installShortcut(name, pairs[i][1]);
  }
  for (const trap in toolsTraps) delete toolsTraps[trap];
  freeze(toolsTarget);
};

const toolsTraps = {
  __proto__: null,
  get(target, name) {
    const value = target[name];
    return value !== undefined || typeof name !== 'string' ? value : findShortcut(name);
  },
  set: () => false,
  defineProperty: () => false,
  getPrototypeOf: () => null,
  setPrototypeOf: (target, prototype) => prototype === null,
};

// The engine asks for a trap, finds none, and goes on with the target, which is
// complete by then. A trap that returned a thousand names would have each of
// them compared with each.
const completing = ['has', 'deleteProperty', 'getOwnPropertyDescriptor', 'ownKeys', 'isExtensible', 'preventExtensions'];
for (let i = 0; i < completing.length; i++) {
  defineProperty(toolsTraps, completing[i], {
    __proto__: null, enumerable: true, configurable: true, get: () => { completeTools(); }, set: undefined,
  });
}

constant(globalThis, 'tools', new Proxy(toolsTarget, toolsTraps));
