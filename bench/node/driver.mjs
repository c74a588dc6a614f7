// The benchmark's peer: runs cells as the reference does, one Node worker
// thread per exec and per resume, and, for comparison, in a plain worker
// thread with the engine that cellblock uses. Reads one JSON request a line
// from stdin and writes one JSON answer a line to stdout.

import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { createInterface } from "node:readline";
import { fileURLToPath, pathToFileURL } from "node:url";
import { Worker } from "node:worker_threads";
import { QuickJS } from "quickjs-wasi";

const here = createRequire(import.meta.url);
const reference = fileURLToPath(new URL("./node_modules/openclaw/", import.meta.url)); // it exports no package.json
const referenceFile = `${reference}dist/agents/code-mode.worker.js`;

const compile = async (file) => WebAssembly.compile(await readFile(file));
const versionOf = async (file) => JSON.parse(await readFile(file, "utf8")).version;

// The two systems. The wasm of each is compiled once, as the reference's host
// does it.
const systems = {
  reference: {
    url: pathToFileURL(referenceFile),
    wasm: createRequire(referenceFile).resolve("quickjs-wasi/quickjs.wasm"),
  },
  engine: {
    url: new URL("./engine-worker.mjs", import.meta.url),
    wasm: here.resolve("quickjs-wasi/quickjs.wasm"),
  },
};
for (const system of Object.values(systems)) {
  system.module = await compile(system.wasm);
}

// The settings that the reference has by default.
const defaults = {
  timeoutMs: 10_000,
  memoryLimitBytes: 64 * 1024 * 1024,
  maxOutputBytes: 64 * 1024,
  maxSnapshotBytes: 10 * 1024 * 1024,
  maxPendingToolCalls: 16,
};

// inWorker runs one worker thread to its end: its answer, then its
// termination, which the reference's host waits for too.
async function inWorker(name, workerData) {
  const { url, module } = systems[name];
  const worker = new Worker(url, { workerData: { ...workerData, wasmModule: module } });
  try {
    return await new Promise((resolve, reject) => {
      worker.once("message", resolve);
      worker.once("error", reject);
      worker.once("exit", (code) => reject(new Error(`worker exited with code ${code}`)));
    });
  } finally {
    await worker.terminate();
  }
}

const execData = ({ source, catalog, timeoutMs }) => ({
  kind: "exec",
  source,
  config: { ...defaults, ...(timeoutMs ? { timeoutMs } : {}) },
  catalog: catalog ?? [],
  namespaces: [],
});

function expect(result, status) {
  if (result.status !== status) {
    throw new Error(`result is ${result.status}, not ${status}: ${result.code} ${result.error}`);
  }
  return result;
}

async function timed(work) {
  const begin = performance.now();
  const value = await work();
  return [performance.now() - begin, value];
}

// sample repeats work until there are count times or the budget is spent, at
// least twice.
async function sample({ count, budgetMs }, work) {
  const until = performance.now() + (budgetMs ?? Infinity);
  const ms = [];
  while (ms.length < count && (ms.length < 2 || performance.now() < until)) {
    ms.push((await timed(work))[0]);
  }
  return { ms };
}

let catalog = [];

const operations = {
  async versions() {
    return {
      node: process.version,
      openclaw: await versionOf(`${reference}package.json`),
      reference: await versionOf(systems.reference.wasm.replace(/quickjs\.wasm$/, "package.json")),
      engine: await versionOf(systems.engine.wasm.replace(/quickjs\.wasm$/, "package.json")),
    };
  },

  // The catalog that execs with useCatalog see from now on.
  catalog(request) {
    catalog = request.entries;
    return { size: catalog.length };
  },

  async exec(request) {
    const data = execData({ ...request, catalog: request.useCatalog ? catalog : [] });
    let value;
    const out = await sample(request, async () => {
      ({ value } = expect(await inWorker(request.system, data), "completed"));
    });
    return { ...out, value };
  },

  async park(request) {
    const result = expect(await inWorker("reference", execData(request)), "waiting");
    return { bytes: result.snapshotBytes.byteLength };
  },

  async resume(request) {
    const parked = expect(await inWorker("reference", execData(request)), "waiting");
    const data = {
      kind: "resume",
      snapshotBytes: parked.snapshotBytes,
      config: defaults,
      settledRequests: parked.pendingRequests.map(({ id }) => ({ id, ok: true, value: request.settle })),
    };
    let value;
    const out = await sample(request, async () => {
      ({ value } = expect(await inWorker("reference", data), "completed"));
    });
    return { ...out, value };
  },

  // Clients that each run one cell after the other.
  async load(request) {
    const data = execData(request);
    const begin = performance.now();
    const until = begin + request.seconds * 1000;
    let runs = 0;
    const client = async () => {
      while (performance.now() < until) {
        expect(await inWorker(request.system, data), "completed");
        runs++;
      }
    };
    await Promise.all(Array.from({ length: request.clients }, client));
    return { runs, seconds: (performance.now() - begin) / 1000 };
  },

  // How long after its deadline an endless loop has its result.
  async overrun(request) {
    const data = execData(request);
    const { ms } = await sample(request, async () => {
      const result = await inWorker("reference", data);
      if (result.code !== "timeout") {
        throw new Error(`endless loop gave ${JSON.stringify(result)}`);
      }
    });
    return { ms: ms.map((t) => t - request.timeoutMs) };
  },

  // A cell that times itself, in the engine's wasm under V8, without anything
  // around it. The runs before the measured ones let V8 optimise.
  async cell(request) {
    const run = async () => {
      const vm = await QuickJS.create({ wasm: systems.engine.module, memoryLimit: defaults.memoryLimitBytes });
      try {
        const handle = vm.evalCode(`JSON.stringify((() => {${request.source}\n})())`, "cell.js");
        const text = vm.dump(handle);
        handle.dispose();
        return JSON.parse(text);
      } finally {
        vm.dispose();
      }
    };
    for (let i = 0; i < request.warmUp; i++) {
      await run();
    }
    const ms = [];
    let value;
    for (let i = 0; i < request.count; i++) {
      const [took, result] = await run();
      ms.push(took);
      value = result;
    }
    return { ms, value };
  },
};

for await (const line of createInterface({ input: process.stdin })) {
  const request = JSON.parse(line);
  let answer;
  try {
    answer = await operations[request.op](request);
  } catch (error) {
    answer = { error: error instanceof Error ? error.message : String(error) };
  }
  process.stdout.write(`${JSON.stringify(answer)}\n`);
}
