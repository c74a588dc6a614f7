// Timers are entries of a binary heap, ordered by due time and then by number.
// The host sleeps; it calls fire when the first one is due.

const maxDelay = 2147483647;
const heap = newList();
const timers = { __proto__: null };
let timerCount = 0;
let lastTimer = 0;

const before = (a, b) => a.due < b.due || a.due === b.due && a.order < b.order;

const place = (timer, at) => {
  heap[at] = timer;
  timer.at = at;
};

const siftUp = (timer) => {
  let at = timer.at;
  while (at > 0) {
    const parent = (at - 1) >> 1;
    if (!before(timer, heap[parent])) break;
    place(heap[parent], at);
    at = parent;
  }
  place(timer, at);
};

const siftDown = (timer) => {
  let at = timer.at;
  for (;;) {
    let child = 2 * at + 1;
    if (child >= heap.length) break;
    if (child + 1 < heap.length && before(heap[child + 1], heap[child])) child++;
    if (!before(heap[child], timer)) break;
    place(heap[child], at);
    at = child;
  }
  place(timer, at);
};

let timerOrder = 0;

const arm = (timer, now) => {
  timer.due = now + timer.delay;
  timer.order = timerOrder++;
  timer.at = heap.length;
  heap[heap.length] = timer;
  siftUp(timer);
};

const disarm = (timer) => {
  const last = heap[heap.length - 1];
  heap.length -= 1;
  if (last === timer) return;
  last.at = timer.at;
  heap[last.at] = last;
  siftUp(last);
  siftDown(last);
};

const startTimer = (what, callback, delay, args, repeat) => {
  if (typeof callback !== 'function') throw new TypeErrorConstructor(what + ' callback must be a function');
  if (timerCount >= limits.timers) throw new RangeErrorConstructor('too many live timers (at most ' + limits.timers + ')');
  const wanted = trunc(NumberFunction(delay));
  const id = ++lastTimer;
  const timer = {
    __proto__: null, id, callback, args, repeat, due: 0, order: 0, at: 0,
    delay: wanted >= 1 ? min(wanted, maxDelay) : 1,
  };
  timers[id] = timer;
  timerCount++;
  arm(timer, dateNow());
  return id;
};

const stopTimer = (id) => {
  const timer = typeof id === 'number' || typeof id === 'string' ? timers[id] : undefined;
  if (timer === undefined) return;
  delete timers[id];
  timerCount--;
  if (timer.at >= 0) disarm(timer);
};

ordinary(globalThis, 'setTimeout', (callback, delay, ...args) => startTimer('setTimeout', callback, delay, args, false), true);
ordinary(globalThis, 'setInterval', (callback, delay, ...args) => startTimer('setInterval', callback, delay, args, true), true);
ordinary(globalThis, 'clearTimeout', (id) => { stopTimer(id); }, true);
ordinary(globalThis, 'clearInterval', (id) => { stopTimer(id); }, true);

// nextTimer is the time in ms until the next timer is due, -1 without timers.
const nextTimer = () => (heap.length === 0 ? -1 : max(0, heap[0].due - dateNow()));

// fire runs one due timer and says whether there was one; the host lets
// promise jobs run between two of them, as everywhere else.
const fire = () => {
  if (nextTimer() !== 0) return 0;
  const timer = heap[0];
  disarm(timer);
  timer.at = -1;
  if (!timer.repeat) stopTimer(timer.id);
  try {
    apply(timer.callback, undefined, timer.args);
  } catch (reason) {
    reportUncaught(reason);
  }
  if (timer.repeat && timers[timer.id] === timer) arm(timer, dateNow());
  return 1;
};
