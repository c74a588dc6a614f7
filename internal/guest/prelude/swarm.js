// agents, phase and log, there only in runs that may start agents.

let swarmError = null;

const requireWords = (value, what) => {
  if (typeof value !== 'string' || stringTrim(value) === '') {
    throw new TypeErrorConstructor(what + ' must be a non-blank string.');
  }
  return value;
};

const installSwarm = () => {
  swarmError = class SwarmAgentError extends ErrorConstructor {};
  ordinary(swarmError.prototype, 'name', 'SwarmAgentError', false);
  // Frozen, so that its instances are always errors made by the engine.
  freeze(swarmError);
  ordinary(globalThis, 'SwarmAgentError', swarmError, false);
  constant(globalThis, 'agents', freeze({
    __proto__: null,
    run: freeze((prompt, options) => promising(() => request('agents.run',
      '[' + quote(requireWords(prompt, 'agents.run prompt')) + ',' + agentOptions(options) + ']'))),
  }));
  constant(globalThis, 'phase', freeze((name) => promising(() =>
    request('phase', '[' + quote(requireWords(name, 'phase name')) + ']'))));
  constant(globalThis, 'log', freeze((words) => promising(() =>
    request('log', '[' + quote(requireWords(words, 'log text')) + ']'))));
};

const agentOptions = (options) => {
  if (options === undefined || options === null) return '{}';
  if (typeof options !== 'object' || isArray(options)) {
    throw new TypeErrorConstructor('agents.run options must be an object.');
  }
  if (options.phase !== undefined) requireWords(options.phase, 'agents.run phase');
  return inputJSON(options, '{}');
};
