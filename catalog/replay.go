package catalog

import "encoding/json"

// ReplaySafe reports whether a restart-safe run may make this request: search,
// describe, yields, and calls by the exact id of a tool declared replay-safe.
// The error is ErrReplayTools or ErrReplayNamespaces. Requests that reject
// whatever happens (malformed ones) are allowed.
func (x *Exec) ReplaySafe(method string, args json.RawMessage) error {
	switch method {
	case MethodNamespace:
		return ErrReplayNamespaces
	case MethodCall, MethodCallValue:
		list, err := arguments(args)
		if err != nil {
			return nil //nolint:nilerr // Begin rejects it without calling anything
		}
		id, ok := firstText(list)
		if !ok {
			return nil
		}
		if e, ok := x.c.byID[id]; !ok || !e.replaySafe() {
			return ErrReplayTools
		}
	}
	return nil
}

// replaySafe reports whether the tool is declared so by somebody whose word
// counts.
func (e *entry) replaySafe() bool {
	return e.tool.ReplaySafe && e.source == sourceOpenClaw
}

// ToolOf returns the id of the tool that a request calls, as the list of
// pending calls shows it; "" when it calls none.
func (x *Exec) ToolOf(method string, args json.RawMessage) string {
	list, err := arguments(args)
	if err != nil {
		return ""
	}
	switch method {
	case MethodCall, MethodCallValue:
		id, _ := firstText(list)
		if e, err := x.c.find(id); err == nil {
			return e.id
		}
	case MethodNamespace:
		id, path, err := namespaceTarget(list)
		if err != nil {
			return ""
		}
		if id == namespaceMCP {
			if t, err := x.c.mcpTarget(path); err == nil {
				return t.toolID()
			}
			return ""
		}
		if _, e, _, err := x.target(id, path); err == nil {
			return e.id
		}
	}
	return ""
}

// held says why the definition of a tool of a trusted server is held back.
func (e *entry) held() error {
	if e.tool.Trust == nil || e.tool.Trust.Check == nil {
		return nil
	}
	return e.tool.Trust.Check()
}
