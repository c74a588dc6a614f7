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
