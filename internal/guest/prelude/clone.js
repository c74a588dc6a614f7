// structuredClone: what the HTML standard says of the types this engine has.

const typedArrayPrototype = getPrototypeOf(Uint8Array.prototype);
const typedArrayName = uncurry(getOwnPropertyDescriptor(typedArrayPrototype, SymbolToStringTag).get);
const typedArrayBuffer = uncurry(getOwnPropertyDescriptor(typedArrayPrototype, 'buffer').get);
const typedArrayOffset = uncurry(getOwnPropertyDescriptor(typedArrayPrototype, 'byteOffset').get);
const typedArrayLength = uncurry(getOwnPropertyDescriptor(typedArrayPrototype, 'length').get);
const bufferLength = uncurry(getOwnPropertyDescriptor(ArrayBuffer.prototype, 'byteLength').get);
const bufferSlice = uncurry(ArrayBuffer.prototype.slice);
const bufferTransfer = uncurry(ArrayBuffer.prototype.transfer);
const isView = ArrayBuffer.isView;
const viewBuffer = uncurry(getOwnPropertyDescriptor(DataView.prototype, 'buffer').get);
const viewOffset = uncurry(getOwnPropertyDescriptor(DataView.prototype, 'byteOffset').get);
const viewLength = uncurry(getOwnPropertyDescriptor(DataView.prototype, 'byteLength').get);
const DataViewConstructor = DataView;
const DateConstructor = Date;
const RegExpConstructor = RegExp;
const RegExpPrototype = RegExp.prototype;
const regExpSource = uncurry(getOwnPropertyDescriptor(RegExp.prototype, 'source').get);
const regExpFlags = uncurry(getOwnPropertyDescriptor(RegExp.prototype, 'flags').get);
const bigintValue = uncurry(BigInt.prototype.valueOf);
const symbolValue = uncurry(Symbol.prototype.valueOf);
const ObjectFunction = Object;

const typedArrays = { __proto__: null };
for (const constructor of [
  Int8Array, Uint8Array, Uint8ClampedArray, Int16Array, Uint16Array, Int32Array, Uint32Array,
  BigInt64Array, BigUint64Array, Float16Array, Float32Array, Float64Array,
]) typedArrays[constructor.name] = constructor;

const uncloneable = (value) => cleanStack(new DOMExceptionConstructor(
  (typeof value === 'symbol' ? 'a symbol' : typeof value === 'function' ? 'a function' : 'this object') +
  ' could not be cloned', 'DataCloneError'));

// attempt is the result of a function that throws for values of another kind.
const attempt = (probe, value) => {
  try {
    return { __proto__: null, value: probe(value) };
  } catch {
    return null;
  }
};

// boxProbes are the primitives that may be in a box.
const boxProbes = freeze(setPrototypeOf([numberValue, stringValue, booleanValue, bigintValue], null));

// uncloneableProbes find the objects that cannot be copied.
const weakMapHas = uncurry(WeakMap.prototype.has);
const weakSetHas = uncurry(WeakSet.prototype.has);
const weakRefDeref = uncurry(WeakRef.prototype.deref);
const uncloneableProbes = freeze(setPrototypeOf([
  symbolValue,
  (value) => weakMapHas(value, value),
  (value) => weakSetHas(value, value),
  weakRefDeref,
  (value) => promiseThen(value, undefined, () => {}),
], null));

// cloneLeaf copies an object that holds no other values, or gives undefined.
const cloneLeaf = (value, seen) => {
  let found = attempt(dateGetTime, value);
  if (found !== null) return new DateConstructor(found.value);
  found = value === RegExpPrototype ? null : attempt(regExpSource, value);
  if (found !== null) return new RegExpConstructor(found.value, regExpFlags(value));
  if (isView(value)) return cloneView(value, seen);
  found = attempt(bufferLength, value);
  if (found !== null) return bufferSlice(value, 0, found.value);
  for (let i = 0; i < boxProbes.length; i++) {
    found = attempt(boxProbes[i], value);
    if (found !== null) return ObjectFunction(found.value);
  }
  for (let i = 0; i < uncloneableProbes.length; i++) {
    if (attempt(uncloneableProbes[i], value) !== null) throw uncloneable(value);
  }
  return undefined;
};

const cloneView = (view, seen) => {
  const name = typedArrayName(view);
  if (name === undefined) {
    return new DataViewConstructor(cloneValue(viewBuffer(view), seen), viewOffset(view), viewLength(view));
  }
  const buffer = cloneValue(typedArrayBuffer(view), seen);
  return new typedArrays[name](buffer, typedArrayOffset(view), typedArrayLength(view));
};

const cloneError = (error, seen) => {
  const name = attempt((e) => StringFunction(e.name), error)?.value ?? 'Error';
  const known = hasOwn(errorConstructors, name) ? errorConstructors[name] : ErrorConstructor;
  const copy = new known();
  mapSet(seen, error, copy);
  const message = getOwnPropertyDescriptor(error, 'message');
  if (message !== undefined && hasOwn(message, 'value')) ordinary(copy, 'message', StringFunction(message.value), false);
  ordinary(copy, 'stack', errorStack(error), false);
  if (hasOwn(error, 'cause')) ordinary(copy, 'cause', cloneValue(error.cause, seen), false);
  return copy;
};

const cloneMembers = (value, copy, seen) => {
  const names = objectKeys(value);
  for (let i = 0; i < names.length; i++) ordinary(copy, names[i], cloneValue(value[names[i]], seen), true);
  return copy;
};

const cloneValue = (value, seen) => {
  if (typeof value === 'function' || typeof value === 'symbol') throw uncloneable(value);
  if (typeof value !== 'object' || value === null) return value;
  if (mapHas(seen, value)) return mapGet(seen, value);
  if (isError(value)) return cloneError(value, seen);
  if (isArray(value)) {
    const copy = [];
    copy.length = value.length;
    mapSet(seen, value, copy);
    return cloneMembers(value, copy, seen);
  }
  if (attempt(mapSize, value) !== null) {
    const copy = new MapConstructor();
    mapSet(seen, value, copy);
    const entries = newList();
    mapForEach(value, (v, k) => { entries[entries.length] = { __proto__: null, k, v }; });
    for (let i = 0; i < entries.length; i++) mapSet(copy, cloneValue(entries[i].k, seen), cloneValue(entries[i].v, seen));
    return copy;
  }
  if (attempt(setSize, value) !== null) {
    const copy = new SetConstructor();
    mapSet(seen, value, copy);
    const members = newList();
    setForEach(value, (v) => { members[members.length] = v; });
    for (let i = 0; i < members.length; i++) setAdd(copy, cloneValue(members[i], seen));
    return copy;
  }
  const leaf = cloneLeaf(value, seen);
  if (leaf !== undefined) {
    mapSet(seen, value, leaf);
    return leaf;
  }
  const copy = {};
  mapSet(seen, value, copy);
  return cloneMembers(value, copy, seen);
};

ordinary(globalThis, 'structuredClone', function structuredClone(value, options) {
  if (arguments.length === 0) throw new TypeErrorConstructor('structuredClone needs a value');
  const seen = new MapConstructor();
  const list = options?.transfer;
  if (list === undefined) return cloneValue(value, seen);
  const buffers = [...list];
  for (const buffer of buffers) {
    if (attempt(bufferLength, buffer) === null || mapHas(seen, buffer)) throw uncloneable(buffer);
    // The copy may be made last: nothing else can see the buffer until then.
    mapSet(seen, buffer, null);
  }
  for (const buffer of buffers) mapSet(seen, buffer, bufferTransfer(buffer));
  return cloneValue(value, seen);
}, false);
