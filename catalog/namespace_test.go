package catalog

import "context"

func emptyScope(context.Context, ScopeContext) (any, error) { return map[string]any{}, nil }
