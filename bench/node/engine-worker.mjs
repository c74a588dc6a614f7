// A plain worker thread with the engine that cellblock uses and nothing
// around it: the least that an exec in this process model costs.

import { parentPort, workerData } from "node:worker_threads";
import { EvalFlags, QuickJS } from "quickjs-wasi";

const { wasmModule, source, config } = workerData;
const begin = Date.now();
const vm = await QuickJS.create({
  wasm: wasmModule,
  memoryLimit: config.memoryLimitBytes,
  interruptHandler: () => Date.now() - begin >= config.timeoutMs,
});
let result;
try {
  vm.evalCode(`globalThis.result = (async () => {\n${source}\n})()`, "cell.js", EvalFlags.ASYNC).dispose();
  vm.executePendingJobs();
  const promise = vm.global.getProp("result");
  const settled = await vm.resolvePromise(promise);
  promise.dispose();
  if ("error" in settled) {
    result = { status: "failed", error: String(vm.dump(settled.error)) };
    settled.error.dispose();
  } else {
    result = { status: "completed", value: vm.dump(settled.value) };
    settled.value.dispose();
  }
} finally {
  vm.dispose();
}
parentPort.postMessage(result);
