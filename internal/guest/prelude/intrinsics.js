// Everything below is the inside of one strict function that gets the host's
// three doors as `native`. It runs once, before any guest code, and takes hold
// of every intrinsic it will ever need: what the guest changes later on a
// prototype or a constructor is never looked up by this code again.
//
// House rules for these files: no method calls on values a guest can reach
// (use the captured functions), no spread, destructuring or for-of over arrays,
// no property descriptors with a prototype, no arrays that grow by assignment
// unless they are lists made by newList, and no implicit string conversion of
// guest values.

const { apply, ownKeys } = Reflect;
const { bind: bindFunction, call: callFunction } = Function.prototype;
// uncurry turns a method into a function that takes `this` first.
const uncurry = apply(bindFunction, bindFunction, [callFunction]);

const {
  create: objectCreate,
  defineProperty,
  freeze,
  getOwnPropertyDescriptor,
  getPrototypeOf,
  hasOwn,
  isExtensible,
  keys: objectKeys,
  preventExtensions,
  setPrototypeOf,
} = Object;
const ObjectPrototype = Object.prototype;
const ArrayPrototype = Array.prototype;
const FunctionPrototype = Function.prototype;
const DatePrototype = Date.prototype;
const objectToString = uncurry(ObjectPrototype.toString);
const builtinToStrings = freeze(setPrototypeOf([
  ObjectPrototype.toString, ArrayPrototype.toString, FunctionPrototype.toString,
], null));

const isArray = Array.isArray;
const { parse: jsonParse, stringify: jsonStringify } = JSON;
const PromiseConstructor = Promise;
const promiseThen = uncurry(Promise.prototype.then);
const StringFunction = String;
const SymbolIterator = Symbol.iterator;
const SymbolToStringTag = Symbol.toStringTag;

const ErrorConstructor = Error;
const { isError } = Error;
const errorStackDescriptor = getOwnPropertyDescriptor(Error.prototype, 'stack');
const errorStack = uncurry(errorStackDescriptor.get);
const { RangeError: RangeErrorConstructor, TypeError: TypeErrorConstructor } = globalThis;
const DOMExceptionConstructor = DOMException;
const domExceptionName = uncurry(getOwnPropertyDescriptor(DOMException.prototype, 'name').get);
const domExceptionMessage = uncurry(getOwnPropertyDescriptor(DOMException.prototype, 'message').get);
const errorConstructors = freeze({
  __proto__: null, Error, EvalError, RangeError, ReferenceError, SyntaxError, TypeError, URIError,
});

const { floor, max, min, trunc } = Math;
const dateNow = Date.now;
const dateGetTime = uncurry(DatePrototype.getTime);
const dateToISOString = DatePrototype.toISOString;
const dateToJSON = DatePrototype.toJSON;
const dateISO = uncurry(dateToISOString);
const NumberFunction = Number;
const isInteger = Number.isInteger;
const bigintToString = uncurry(BigInt.prototype.toString);
const numberValue = uncurry(Number.prototype.valueOf);
const stringValue = uncurry(String.prototype.valueOf);
const booleanValue = uncurry(Boolean.prototype.valueOf);

const charCodeAt = uncurry(String.prototype.charCodeAt);
const codePointAt = uncurry(String.prototype.codePointAt);
const stringIndexOf = uncurry(String.prototype.indexOf);
const stringSlice = uncurry(String.prototype.slice);
const stringTrim = uncurry(String.prototype.trim);
const toLowerCase = uncurry(String.prototype.toLowerCase);
const normalize = uncurry(String.prototype.normalize);
const fromCharCode = String.fromCharCode;
const fromCodePoint = String.fromCodePoint;
const numberToString = uncurry(Number.prototype.toString);
const regExpExec = uncurry(RegExp.prototype.exec);
const arraySort = uncurry(ArrayPrototype.sort);
const arraySplice = uncurry(ArrayPrototype.splice);
const arrayValues = uncurry(ArrayPrototype.values);
const arrayJoin = uncurry(ArrayPrototype.join);

const MapConstructor = Map;
const mapGet = uncurry(Map.prototype.get);
const mapSet = uncurry(Map.prototype.set);
const mapHas = uncurry(Map.prototype.has);
const mapDelete = uncurry(Map.prototype.delete);
const mapForEach = uncurry(Map.prototype.forEach);
const mapSize = uncurry(getOwnPropertyDescriptor(Map.prototype, 'size').get);
const SetConstructor = Set;
const setAdd = uncurry(Set.prototype.add);
const setForEach = uncurry(Set.prototype.forEach);
const setSize = uncurry(getOwnPropertyDescriptor(Set.prototype, 'size').get);

// newList makes an array without a prototype: it grows by assignment, and no
// setter or method of the guest's is ever found on its way.
const newList = () => setPrototypeOf([], null);

// startsWith, without the look at Symbol.match of the builtin.
const startsWith = (s, prefix) => stringSlice(s, 0, prefix.length) === prefix;

// split at every occurrence of a non-empty separator, into a list.
const split = (s, separator) => {
  const out = newList();
  let from = 0;
  for (;;) {
    const at = stringIndexOf(s, separator, from);
    if (at < 0) {
      out[out.length] = stringSlice(s, from);
      return out;
    }
    out[out.length] = stringSlice(s, from, at);
    from = at + separator.length;
  }
};

// constant defines a property that nothing can change any more.
const constant = (object, name, value) => {
  defineProperty(object, name, {
    __proto__: null, value, writable: false, enumerable: true, configurable: false,
  });
};

// ordinary defines a property as an assignment would.
const ordinary = (object, name, value, enumerable) => {
  defineProperty(object, name, {
    __proto__: null, value, writable: true, enumerable, configurable: true,
  });
};

// append puts a value at the end of an ordinary array.
const append = (array, value) => { ordinary(array, array.length, value, true); };

// The engine asks Error for these two whenever it writes a stack. With a hook
// of the guest's it would hand out the functions of this file and the host's.
for (const [name, value] of [['prepareStackTrace', undefined], ['stackTraceLimit', 20]]) {
  defineProperty(Error, name, {
    __proto__: null, value, writable: false, enumerable: false, configurable: false,
  });
}
