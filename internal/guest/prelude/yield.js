// yield_control gives the turn back to the model.

constant(globalThis, 'yield_control', freeze((reason) => promising(() =>
  request('yield', '[' + inputJSON(reason, 'null') + ']'))));
