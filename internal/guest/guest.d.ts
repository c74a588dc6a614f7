/**
 * What a cell sees, for editors and for people. A cell is the body of an async
 * function: `return` gives its value, top-level `await` works, and there are no
 * modules. Everything that crosses to the host is JSON.
 *
 * A cell runs in QuickJS (ECMAScript 2025 and parts of what follows it) in
 * UTC, in sloppy mode. Not there, and `undefined`: process, module, require,
 * fetch, XMLHttpRequest, crypto, Buffer, Intl, Temporal, Atomics, WebAssembly,
 * Worker, setImmediate, and whatever else belongs to a browser or a server.
 * `import()` and `import.meta` are refused before a cell runs.
 *
 * The text of an error that ends a cell has the places in the cell as it was
 * sent. A stack that the cell reads itself has the right lines, but columns of
 * the first line count some 34 characters that stand before the cell; in a
 * TypeScript cell it has the places of the JavaScript made from it.
 * Error.prepareStackTrace and Error.stackTraceLimit are fixed.
 */

type Json = null | boolean | number | string | Json[] | { [key: string]: Json };

/* The catalog. */

/** One tool of the catalog. */
interface CatalogEntry {
  /** `<source>:<owner>:<name>`, for example `openclaw:core:message`. */
  readonly id: string;
  readonly name: string;
  readonly label?: string;
  readonly description: string;
  readonly source: "openclaw" | "mcp" | "client";
  /** The owner; absent for core tools. */
  readonly sourceName?: string;
  /** The input as a TypeScript type; `unknown` when it was not looked at. */
  readonly input: string;
  /** The details as a TypeScript type, when their schema is trusted and complete. */
  readonly output?: string;
}

interface DescribedEntry extends CatalogEntry {
  readonly parameters?: Json;
  readonly outputSchema?: Json;
}

/** Every tool of this run but MCP tools, sorted by id. Frozen. */
declare const ALL_TOOLS: readonly CatalogEntry[];

/**
 * The tools of this run. Each function returns a promise; whatever goes wrong
 * is a rejection. Besides the four helpers there is a function for every tool
 * whose name is an identifier, is unique and is none of the helpers' names; it
 * does what callValue does. Frozen, without a prototype. No tool stands under
 * `then` or `toJSON`, which the language itself calls.
 */
declare const tools: {
  /** Finds tools by words. limit is a positive integer. */
  readonly search: (query: string, options?: { limit?: number }) => Promise<CatalogEntry[]>;
  /** One tool with its schemas, by id or by unique name. */
  readonly describe: (id: string) => Promise<DescribedEntry>;
  /** Calls a tool and gives its whole result. A missing input is `{}`. */
  readonly call: (id: string, input?: unknown) => Promise<{ tool: CatalogEntry; result: any }>;
  /** Calls a tool and gives the details of its result, or the result when it has none. */
  readonly callValue: (id: string, input?: unknown) => Promise<any>;
} & { readonly [name: string]: (input?: unknown) => Promise<any> };

/* MCP. */

/** The whole result of a request. An integer beyond 2^53 arrives as a decimal string. */
interface McpToolResult {
  content?: Array<{ type: string; text?: string; [key: string]: unknown }>;
  structuredContent?: any;
  isError?: boolean;
  _meta?: { [key: string]: unknown };
  [key: string]: unknown;
}

/** What $api() gives. */
interface McpApiHeader {
  kind: "mcp";
  scope: "root" | "server" | "tool";
  /** TypeScript declarations; empty for a tool that is not there. */
  header: string;
  /** The server's identifier, unless the scope is "root". */
  server?: string;
  servers?: Array<{ id: string; serverName: string; description?: string; tools: number }>;
  tools: Array<{ server?: string; name: string; method: string; description: string; header?: string }>;
  /** Input schemas by method (for the root: by server, then method), when they were asked for. */
  schemas?: { [name: string]: any };
}

type McpFunction = (input?: object) => Promise<McpToolResult>;

interface McpServer {
  /** The name in the configuration, from which the identifier was made. */
  readonly $serverName: string;
  readonly $api: (name?: string, options?: { schema?: boolean }) => Promise<McpApiHeader>;
  readonly resources?: { readonly list: McpFunction; readonly read: McpFunction };
  readonly prompts?: { readonly list: McpFunction; readonly get: McpFunction };
  readonly [method: string]: any;
}

/** The MCP servers of this run by identifier. Frozen, without a prototype. */
declare const MCP: {
  readonly $api: (options?: { schema?: boolean }) => Promise<McpApiHeader>;
} & { readonly [server: string]: McpServer };

/** Declaration files, in the guest already: reading them calls nothing. */
declare const API: {
  /** The files below a folder, or one file; all without a prefix. */
  readonly list: (prefix?: string) => Promise<{ files: Array<{ path: string; description: string; bytes: number }> }>;
  readonly read: (path: string) => Promise<{ path: string; content: string; description: string; bytes: number }>;
};

/** The namespaces of this run by the names of their globals, MCP not among them. */
declare const namespaces: { readonly [global: string]: any };

/* Output and control. */

/** Adds text to the output: a string as it is, anything else as the JSON of its safe form. */
declare function text(value: unknown): void;

/**
 * Adds a value to the output. Its safe form is what JSON makes of it; undefined
 * and functions are null; an Error that has no JSON is {name, message}; anything
 * else without JSON is its string, as is what nests deeper than 512 levels.
 */
declare function json(value: unknown): void;

/**
 * Ends this turn and lets the model go on. It resolves when the run is resumed;
 * reason is null when none was given.
 */
declare function yield_control(reason?: Json): Promise<{ status: "yielded"; reason: Json }>;

/** Adds its arguments to the output, as text() would show them, with spaces between. */
declare const console: {
  log(...values: unknown[]): void;
  info(...values: unknown[]): void;
  debug(...values: unknown[]): void;
  /** Prefixed with `[warn] `. */
  warn(...values: unknown[]): void;
  /** Prefixed with `[error] `. */
  error(...values: unknown[]): void;
};

/* Agents: only in runs that may start some. */

declare const agents: undefined | {
  /** Gives the agent's result, or its structured value when there is a schema. */
  readonly run: (prompt: string, options?: { phase?: string; schema?: object; [key: string]: unknown }) => Promise<any>;
};
/** What agents.run rejects with: "Swarm agent <id> <status>: <detail>". */
declare const SwarmAgentError: undefined | (new (message?: string) => Error);
declare const phase: undefined | ((name: string) => Promise<void>);
declare const log: undefined | ((text: string) => Promise<void>);

/* Timers: whole milliseconds, at least 1, at most 2147483647. They are work of
 * the cell: it ends when none is left, and they go on after a suspension. Too
 * many at once are a RangeError; a callback must be a function. */

declare function setTimeout<A extends unknown[]>(callback: (...args: A) => void, delay?: number, ...args: A): number;
declare function setInterval<A extends unknown[]>(callback: (...args: A) => void, delay?: number, ...args: A): number;
declare function clearTimeout(id?: number): void;
declare function clearInterval(id?: number): void;
declare function queueMicrotask(callback: () => void): void;

/* The web's functions. */

/** Milliseconds since the run began, in whole numbers. */
declare const performance: { now(): number; readonly timeOrigin: number };

/** Copies plain values, arrays, dates, maps, sets, errors, buffers and their views; a DataCloneError for the rest. */
declare function structuredClone<T>(value: T, options?: { transfer?: ArrayBuffer[] }): T;

declare function atob(data: string): string;
declare function btoa(data: string): string;

declare class TextEncoder {
  constructor();
  readonly encoding: "utf-8";
  encode(input?: string): Uint8Array;
  encodeInto(source: string, destination: Uint8Array): { read: number; written: number };
}

/** utf-8, utf-16le and utf-16be; other labels are a RangeError. */
declare class TextDecoder {
  constructor(label?: string, options?: { fatal?: boolean; ignoreBOM?: boolean });
  readonly encoding: string;
  readonly fatal: boolean;
  readonly ignoreBOM: boolean;
  decode(input?: ArrayBuffer | ArrayBufferView, options?: { stream?: boolean }): string;
}

/**
 * URLs as the WHATWG standard parses and writes them. One thing is simpler:
 * names outside ASCII get NFKC, lower case and Punycode, without the tables and
 * checks of UTS 46. There are no object URLs.
 */
declare class URL {
  constructor(url: string | URL, base?: string | URL);
  static canParse(url: string | URL, base?: string | URL): boolean;
  static parse(url: string | URL, base?: string | URL): URL | null;
  href: string;
  readonly origin: string;
  protocol: string;
  username: string;
  password: string;
  host: string;
  hostname: string;
  port: string;
  pathname: string;
  search: string;
  readonly searchParams: URLSearchParams;
  hash: string;
  toString(): string;
  toJSON(): string;
}

declare class URLSearchParams {
  constructor(init?: string | Iterable<[string, string]> | { [name: string]: unknown });
  readonly size: number;
  append(name: string, value: string): void;
  delete(name: string, value?: string): void;
  get(name: string): string | null;
  getAll(name: string): string[];
  has(name: string, value?: string): boolean;
  set(name: string, value: string): void;
  sort(): void;
  forEach(callback: (value: string, name: string, parent: URLSearchParams) => void, thisArg?: unknown): void;
  keys(): IterableIterator<string>;
  values(): IterableIterator<string>;
  entries(): IterableIterator<[string, string]>;
  [Symbol.iterator](): IterableIterator<[string, string]>;
  toString(): string;
}
