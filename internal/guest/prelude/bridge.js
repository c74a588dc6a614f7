// The calls of the guest to the host. A call is a number, a method and JSON
// text; its promise stays here, so that it is part of every snapshot.

const limits = { __proto__: null, pending: 16, timers: 1000, bridgeBytes: 16777216 };
const pending = { __proto__: null };
let pendingCount = 0;
let lastCall = 0;

const rejection = (reason) => new PromiseConstructor((_, reject) => { reject(reason); });

// promising makes every failure of a bridge function a rejection.
const promising = (prepare) => {
  try {
    return prepare();
  } catch (reason) {
    return rejection(reason);
  }
};

// request starts a call. args is the JSON text of the argument list.
const request = (method, args) => {
  if (pendingCount >= limits.pending) {
    return rejection(new ErrorConstructor('too many pending code mode tool calls'));
  }
  const id = lastCall + 1;
  lastCall = id;
  return new PromiseConstructor((resolve, reject) => {
    native.request(id, method, args);
    // The stack of the call is kept for the rejection, which has none.
    pending[id] = { __proto__: null, resolve, reject, at: errorStack(new ErrorConstructor()) };
    pendingCount++;
  });
};

// inputJSON is the JSON text of an argument; what has none is a TypeError.
const inputJSON = (value, missing) => {
  if (value === undefined || value === null) return missing;
  const text = stringify(value);
  const bytes = text === undefined ? -1 : measure(text, limits.bridgeBytes);
  if (bytes < 0) {
    throw new TypeErrorConstructor('code mode bridge input must be JSON');
  }
  if (bytes > limits.bridgeBytes) {
    throw new ErrorConstructor('code mode bridge value limit exceeded');
  }
  return text;
};

const requireString = (value, what) => {
  if (typeof value !== 'string') throw new TypeErrorConstructor(what + ' must be a string.');
  return value;
};

// hostError makes the guest's error from the plain data of a failed call.
const hostError = (data, at) => {
  const plain = typeof data === 'object' && data !== null ? data : { __proto__: null, message: data };
  const message = typeof plain.message === 'string' ? plain.message : 'call failed';
  const name = typeof plain.name === 'string' ? plain.name : 'Error';
  const known = hasOwn(errorConstructors, name) ? errorConstructors[name] : ErrorConstructor;
  const error = name === 'SwarmAgentError' && swarmError !== null ? new swarmError(message) : new known(message);
  const names = objectKeys(plain);
  for (let i = 0; i < names.length; i++) {
    if (names[i] !== 'message' && names[i] !== 'name') ordinary(error, names[i], plain[names[i]], true);
  }
  if (!hasOwn(errorConstructors, name)) ordinary(error, 'name', name, false);
  ordinary(error, 'stack', cellFrames(at), false);
  return error;
};

// settle ends a call with the JSON text of its result, or of its error.
const settle = (id, ok, text) => {
  const call = pending[id];
  if (call === undefined) return;
  delete pending[id];
  pendingCount--;
  let value;
  try {
    value = jsonParse(text);
  } catch (reason) {
    call.reject(reason);
    return;
  }
  if (ok) call.resolve(value);
  else call.reject(hostError(value, call.at));
};

// part gives a piece of the catalog, parsed.
const part = (name) => jsonParse(native.need(name));

// lazily defines a global whose value is made at its first touch.
const lazily = (name, make) => {
  let made = false;
  let value;
  defineProperty(globalThis, name, {
    __proto__: null,
    enumerable: true,
    configurable: true,
    get() {
      if (!made) {
        value = make();
        made = true;
        const present = getOwnPropertyDescriptor(globalThis, name);
        if (present === undefined || present.configurable) constant(globalThis, name, value);
      }
      return value;
    },
    set: undefined,
  });
};

// freezeData freezes parsed JSON all the way down.
const freezeData = (value) => {
  if (typeof value !== 'object' || value === null) return value;
  const names = objectKeys(value);
  for (let i = 0; i < names.length; i++) freezeData(value[names[i]]);
  return freeze(value);
};
