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

// begin follows the promise of the cell, which the host has called itself so
// that no frame of ours is below it. An own `constructor` keeps `then` from
// asking the guest which kind of promise to make.
const begin = (promise) => {
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

// state ends a turn and says how the run stands, once no promise job is left.
const state = () => {
  forgetShortcuts();
  if (outcome.status === 'settled' && pendingCount === 0 && timerCount === 0) {
    outcome.status = 'done';
    reportUnhandled();
  }
  const { status, value, error } = outcome;
  let text = '{"status":' + quote(status === 'settled' ? 'running' : status) +
    ',"pending":' + pendingCount + ',"nextTimer":' + nextTimer();
  if (status === 'done') text += ',"value":' + quote(value);
  if (error !== null) {
    text += ',"error":{"name":' + quote(error.name) + ',"message":' + quote(error.message) +
      ',"text":' + quote(error.text) + ',"stack":' + quote(error.stack) + '}';
  }
  return text + '}';
};

return freeze({ __proto__: null, start, begin, settle, fire, rejected, state });
