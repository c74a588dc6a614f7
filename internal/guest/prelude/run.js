// The life of one run: what the host calls.

// The result of the cell.
const outcome = { __proto__: null, status: 'running', value: 'null', error: null };

// Rejections that nobody has handled so far, by promise. The host reports
// them; they count only when the cell ends well.
const maxUnhandled = 100;
const unhandled = new MapConstructor();
let unhandledDropped = 0;

const rejected = (promise, reason, isHandled) => {
  if (isHandled) mapDelete(unhandled, promise);
  else if (mapSize(unhandled) < maxUnhandled) mapSet(unhandled, promise, reason);
  else unhandledDropped++;
};

const reportUncaught = (reason) => { emitText('[error] Uncaught ' + describeError(reason).text); };

const reportUnhandled = () => {
  mapForEach(unhandled, (reason) => { emitText('[error] Unhandled rejection: ' + describeError(reason).text); });
  mapForEach(unhandled, (_, promise) => { mapDelete(unhandled, promise); });
  if (unhandledDropped > 0) emitText('[error] Unhandled rejections not shown: ' + unhandledDropped);
  unhandledDropped = 0;
};

const fail = (reason) => {
  outcome.status = 'failed';
  outcome.error = describeError(reason);
};

const start = (configText) => {
  const config = jsonParse(configText);
  limits.pending = config.maxPending;
  limits.timers = config.maxTimers;
  limits.bridgeBytes = config.maxBridgeBytes;
  installNamespaceGlobals(config.globals ?? []);
  if (config.swarm) installSwarm();
};

// begin calls the cell and follows its promise. An own `constructor` keeps
// `then` from asking the guest which kind of promise to make.
const begin = (cell) => {
  const promise = apply(cell, undefined, []);
  defineProperty(promise, 'constructor', { __proto__: null, value: undefined });
  promiseThen(promise, (value) => {
    try {
      outcome.value = safeJSON(value);
      outcome.status = 'settled';
    } catch (reason) {
      fail(reason);
    }
  }, fail);
};

// state says how the run stands, once no promise job is left.
const state = () => {
  if (outcome.status === 'settled' && pendingCount === 0 && timerCount === 0) {
    outcome.status = 'done';
    reportUnhandled();
  }
  return quote({
    __proto__: null,
    status: outcome.status === 'settled' ? 'running' : outcome.status,
    value: outcome.status === 'done' ? outcome.value : undefined,
    error: outcome.error ?? undefined,
    pending: pendingCount,
    nextTimer: nextTimer(),
  });
};

return freeze({ __proto__: null, start, begin, settle, fire, rejected, state });
