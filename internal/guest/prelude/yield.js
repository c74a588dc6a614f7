constant(globalThis, 'yield_control', freeze((reason) => promising(() =>
  request('yield', '[' + inputJSON(reason, 'null') + ']'))));
