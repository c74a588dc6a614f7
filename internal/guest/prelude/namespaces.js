// namespaces, and the global of each. A scope comes as a tree of nodes:
// ["v", json], ["o", [[key, node], ...]], ["a", [node, ...]] or ["c", path].

const namespaceCall = (id, path) => {
  const head = '[' + quote(id) + ',' + quoteList(path) + ',[';
  return freeze((...args) => promising(() => {
    let list = '';
    for (let i = 0; i < args.length; i++) list += (i > 0 ? ',' : '') + inputJSON(args[i], 'null');
    return request('namespace', head + list + ']]');
  }));
};

const scopeNode = (id, node) => {
  const kind = node[0];
  const content = node[1];
  if (kind === 'v') return freezeData(content);
  if (kind === 'c') return namespaceCall(id, content);
  if (kind === 'a') {
    const items = [];
    for (let i = 0; i < content.length; i++) append(items, scopeNode(id, content[i]));
    return freeze(items);
  }
  const object = { __proto__: null };
  for (let i = 0; i < content.length; i++) {
    const key = content[i][0];
    const member = content[i][1];
    if (member[0] === 'c' && calledByTheLanguage(key)) continue;
    constant(object, key, scopeNode(id, member));
  }
  return freeze(object);
};

let namespaceGlobals = null;

const loadNamespaces = () => {
  if (namespaceGlobals !== null) return namespaceGlobals;
  const list = part('namespaces');
  const object = { __proto__: null };
  for (let i = 0; i < list.length; i++) constant(object, list[i].global, scopeNode(list[i].id, list[i].scope));
  namespaceGlobals = freeze(object);
  return namespaceGlobals;
};

lazily('namespaces', loadNamespaces);

const installNamespaceGlobals = (names) => {
  for (let i = 0; i < names.length; i++) {
    const name = names[i];
    lazily(name, () => loadNamespaces()[name]);
  }
};
