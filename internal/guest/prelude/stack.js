// Stacks as the guest sees them: without the frames of these files.

// withoutOurs drops from a stack our frames, and those of natives that we have
// called.
const withoutOurs = (stack) => {
  if (typeof stack !== 'string' || stringIndexOf(stack, '(<cellblock>:') < 0) return stack;
  const lines = split(stack, '\n');
  let out = '';
  let ours = false;
  for (let i = lines.length - 1; i >= 0; i--) {
    const line = lines[i];
    if (line === '') continue;
    const isNative = stringIndexOf(line, ' (native)') >= 0;
    if (ours && isNative) continue;
    ours = stringIndexOf(line, ' (<cellblock>:') >= 0;
    if (!ours) out = line + '\n' + out;
  }
  return out;
};

const { get: stackGetter } = getOwnPropertyDescriptor({ get stack() { return withoutOurs(errorStack(this)); } }, 'stack');
defineProperty(ErrorConstructor.prototype, 'stack', {
  __proto__: null, get: stackGetter, set: errorStackDescriptor.set, enumerable: false, configurable: true,
});

// cleanStack does the same for a stack that is a property of its object.
const cleanStack = (object) => {
  const own = getOwnPropertyDescriptor(object, 'stack');
  if (own !== undefined && own.configurable && hasOwn(own, 'value')) ordinary(object, 'stack', withoutOurs(own.value), false);
  return object;
};

const engineCapture = ErrorConstructor.captureStackTrace;
const { captureStackTrace } = {
  captureStackTrace(object, below) {
    apply(engineCapture, ErrorConstructor, [object, typeof below === 'function' ? below : captureStackTrace]);
    cleanStack(object);
  },
};
ordinary(ErrorConstructor, 'captureStackTrace', captureStackTrace, false);
