// text, json and console: the output list.

const emitText = (text) => { native.output('{"type":"text","text":' + quote(text) + '}'); };

constant(globalThis, 'text', freeze((value) => { emitText(displayText(value)); }));
constant(globalThis, 'json', freeze((value) => {
  native.output('{"type":"json","value":' + safeJSON(value) + '}');
}));

const consoleMethod = (prefix) => (...values) => {
  let line = prefix;
  for (let i = 0; i < values.length; i++) line += (i > 0 ? ' ' : '') + displayText(values[i]);
  emitText(line);
};

ordinary(globalThis, 'console', {
  log: consoleMethod(''),
  info: consoleMethod(''),
  debug: consoleMethod(''),
  warn: consoleMethod('[warn] '),
  error: consoleMethod('[error] '),
}, false);
