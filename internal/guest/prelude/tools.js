// ALL_TOOLS and tools.

lazily('ALL_TOOLS', () => freezeData(part('tools')));

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
// (its keys, whether it is frozen) the target is completed and frozen, and the
// proxy is from then on only a window on it.
const toolsTarget = { __proto__: null };
for (const name in toolHelpers) constant(toolsTarget, name, toolHelpers[name]);
let shortcutIds = null;
let toolsComplete = false;

const findShortcut = (name) => {
  if (calledByTheLanguage(name)) return undefined;
  if (shortcutIds === null) {
    const list = part('shortcuts');
    const ids = { __proto__: null };
    for (let i = 0; i < list.length; i++) ids[list[i][0]] = list[i][1];
    shortcutIds = ids;
  }
  const id = shortcutIds[name];
  if (id === undefined) return undefined;
  const shortcut = toolShortcut(id);
  constant(toolsTarget, name, shortcut);
  return shortcut;
};

const completeTools = () => {
  if (toolsComplete) return toolsTarget;
  findShortcut('');
  for (const name in shortcutIds) {
    if (!hasOwn(toolsTarget, name)) findShortcut(name);
  }
  shortcutIds = null;
  toolsComplete = true;
  return freeze(toolsTarget);
};

constant(globalThis, 'tools', new Proxy(toolsTarget, freeze({
  __proto__: null,
  get(target, name) {
    const value = target[name];
    if (value !== undefined || toolsComplete || typeof name !== 'string') return value;
    return findShortcut(name);
  },
  set: () => false,
  has: (target, name) => hasOwn(completeTools(), name),
  deleteProperty: (target, name) => !hasOwn(completeTools(), name),
  defineProperty: () => false,
  getOwnPropertyDescriptor: (target, name) => getOwnPropertyDescriptor(completeTools(), name),
  ownKeys: () => ownKeys(completeTools()),
  isExtensible: () => isExtensible(completeTools()),
  preventExtensions: () => {
    completeTools();
    return true;
  },
  getPrototypeOf: () => null,
  setPrototypeOf: (target, prototype) => prototype === null,
})));
