// MCP and API: the remote tools, and the declaration files that describe them.

const isPlainObject = (value) => {
  if (typeof value !== 'object' || value === null || isArray(value)) return false;
  const prototype = getPrototypeOf(value);
  return prototype === null || prototype === ObjectPrototype;
};

const mcpFunction = (...path) => {
  const head = '["MCP",' + quoteList(path) + ',[';
  return freeze((...args) => promising(() => {
    const input = args.length === 0 ? undefined : args[0];
    if (args.length > 1 || input !== undefined && !isPlainObject(input)) {
      throw new TypeErrorConstructor('MCP namespace tools accept one object argument.');
    }
    return request('namespace', head + inputJSON(input, '{}') + ']]');
  }));
};

let mcpSchemas = null;

// schemasOf gives the schemas of a server's methods, as data of the caller's own.
const schemasOf = (server, tools) => {
  if (mcpSchemas === null) mcpSchemas = part('mcp-schemas');
  const known = hasOwn(mcpSchemas, server) ? mcpSchemas[server] : { __proto__: null };
  const out = {};
  for (let i = 0; i < tools.length; i++) {
    const method = tools[i].method;
    ordinary(out, method, hasOwn(known, method) ? jsonParse(stringify(known[method])) : {}, true);
  }
  return out;
};

const toolHeader = (tool) => ({ name: tool.name, method: tool.method, description: tool.description, header: tool.header });

// resolved is a promise that the guest gets for an answer found at once.
const resolved = (value) => new PromiseConstructor((resolve) => { resolve(value); });

const wantsSchemas = (options) =>
  typeof options === 'object' && options !== null && options.schema === true;

// serverAPI answers MCP.<server>.$api(name?, {schema?}).
const serverAPI = (server, name, options) => {
  if (typeof name === 'object' && options === undefined) {
    options = name;
    name = undefined;
  }
  if (name !== undefined && name !== null && typeof name !== 'string') {
    throw new TypeErrorConstructor('$api tool name must be a string.');
  }
  const tools = [];
  const chosen = newList();
  let header = server.header;
  for (let i = 0; i < server.tools.length; i++) {
    const tool = server.tools[i];
    if (typeof name === 'string' && tool.method !== name && tool.name !== name) continue;
    chosen[chosen.length] = tool;
    append(tools, toolHeader(tool));
  }
  if (typeof name === 'string') header = chosen.length === 0 ? '' : chosen[0].header;
  const answer = { kind: 'mcp', scope: typeof name === 'string' ? 'tool' : 'server', header, server: server.id, tools };
  if (wantsSchemas(options)) answer.schemas = schemasOf(server.id, chosen);
  return answer;
};

// rootAPI answers MCP.$api().
const rootAPI = ({ header, servers }, options) => {
  const answer = { kind: 'mcp', scope: 'root', header, servers: [], tools: [] };
  const schemas = {};
  for (let i = 0; i < servers.length; i++) {
    const { id, serverName, description, tools } = servers[i];
    append(answer.servers, { id, serverName, description, tools: tools.length });
    for (let k = 0; k < tools.length; k++) {
      const { name, method } = tools[k];
      append(answer.tools, { server: id, name, method, description: tools[k].description });
    }
    if (wantsSchemas(options)) ordinary(schemas, id, schemasOf(id, tools), true);
  }
  if (wantsSchemas(options)) answer.schemas = schemas;
  return answer;
};

const mcpServer = (server) => {
  const object = { __proto__: null };
  constant(object, '$serverName', server.serverName);
  constant(object, '$api', freeze((name, options) => promising(() => resolved(serverAPI(server, name, options)))));
  if (server.resources) {
    constant(object, 'resources', freeze({
      __proto__: null,
      list: mcpFunction(server.id, 'resources', 'list'),
      read: mcpFunction(server.id, 'resources', 'read'),
    }));
  }
  if (server.prompts) {
    constant(object, 'prompts', freeze({
      __proto__: null,
      list: mcpFunction(server.id, 'prompts', 'list'),
      get: mcpFunction(server.id, 'prompts', 'get'),
    }));
  }
  for (let i = 0; i < server.tools.length; i++) {
    const method = server.tools[i].method;
    if (!calledByTheLanguage(method) && !hasOwn(object, method)) {
      constant(object, method, mcpFunction(server.id, method));
    }
  }
  return freeze(object);
};

lazily('MCP', () => {
  const mcp = part('mcp');
  const { servers } = mcp;
  const object = { __proto__: null };
  constant(object, '$api', freeze((options) => promising(() => resolved(rootAPI(mcp, options)))));
  for (let i = 0; i < servers.length; i++) constant(object, servers[i].id, mcpServer(servers[i]));
  return freeze(object);
});

// apiPath checks the path of a virtual file; a folder may end in a slash.
const apiPath = (path, what, folder) => {
  if (typeof path !== 'string') throw new TypeErrorConstructor(what + ' must be a string.');
  let clean = path;
  while (startsWith(clean, '/')) clean = stringSlice(clean, 1);
  if (folder && clean === '') return '';
  if (folder && stringSlice(clean, -1) === '/') clean = stringSlice(clean, 0, -1);
  const segments = split(clean, '/');
  for (let i = 0; i < segments.length; i++) {
    if (segments[i] === '' || segments[i] === '.' || segments[i] === '..') {
      throw new ErrorConstructor('invalid API file path');
    }
  }
  return clean;
};

lazily('API', () => {
  const files = part('api');
  const list = (prefix) => {
    const clean = prefix === undefined || prefix === null ? '' : apiPath(prefix, 'API prefix', true);
    const found = [];
    for (let i = 0; i < files.length; i++) {
      const { path, description, bytes } = files[i];
      if (clean !== '' && path !== clean && !startsWith(path, clean + '/')) continue;
      append(found, { path, description, bytes });
    }
    return { files: found };
  };
  const read = (path) => {
    const clean = apiPath(path, 'API path', false);
    for (let i = 0; i < files.length; i++) {
      if (files[i].path !== clean) continue;
      const { content, description, bytes } = files[i];
      return { path: clean, content, description, bytes };
    }
    throw new ErrorConstructor('Unknown API file: ' + path);
  };
  return freeze({
    __proto__: null,
    list: freeze((prefix) => promising(() => resolved(list(prefix)))),
    read: freeze((path) => promising(() => resolved(read(path)))),
  });
});
