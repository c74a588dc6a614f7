package config

import (
	"errors"
	"fmt"
	"strings"
)

// expand replaces ${VAR}, ${env:VAR} and ${VAR:-default} in every string of
// the tree, in place. $${ stands for a plain ${. The values that came out of
// the environment are returned, so that logs can mask them. A string that
// cannot be expanded stays as it is; the error joins all of them.
func expand(file string, root *Node, lookup func(string) (string, bool)) ([]string, error) {
	e := &expander{file: file, lookup: lookup}
	err := e.walk(root, "")
	return e.values, err
}

type expander struct {
	file   string
	lookup func(string) (string, bool)
	values []string
}

func (e *expander) walk(n *Node, path string) error {
	var errs []error
	switch n.Kind {
	case String:
		text, err := e.text(n, path)
		if err != nil {
			return err
		}
		n.Text = text
	case List:
		for i, v := range n.Items {
			errs = append(errs, e.walk(v, fmt.Sprintf("%s[%d]", path, i)))
		}
	case Object:
		for i := range n.Members {
			errs = append(errs, e.walk(n.Members[i].Value, join(path, n.Members[i].Key)))
		}
	default:
	}
	return errors.Join(errs...)
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

func (e *expander) text(n *Node, path string) (string, error) {
	rest := n.Text
	var b strings.Builder
	for {
		i := strings.Index(rest, "${")
		if i < 0 {
			b.WriteString(rest)
			return b.String(), nil
		}
		if i > 0 && rest[i-1] == '$' {
			b.WriteString(rest[:i-1])
			b.WriteString("${")
			rest = rest[i+2:]
			continue
		}
		b.WriteString(rest[:i])
		inner, after, found := strings.Cut(rest[i+2:], "}")
		if !found {
			return "", e.fail(n, path, "a ${ without its }")
		}
		v, err := e.variable(n, path, inner)
		if err != nil {
			return "", err
		}
		b.WriteString(v)
		rest = after
	}
}

func (e *expander) variable(n *Node, path, inner string) (string, error) {
	name, fallback, hasFallback := strings.Cut(inner, ":-")
	name = strings.TrimPrefix(name, "env:")
	if !variableName(name) {
		return "", e.fail(n, path, "${%s} is not understood: ${VAR}, ${env:VAR} and ${VAR:-default} are", inner)
	}
	if v, ok := e.lookup(name); ok && (v != "" || !hasFallback) {
		if v != "" {
			e.values = append(e.values, v)
		}
		return v, nil
	}
	if hasFallback {
		return fallback, nil
	}
	return "", e.fail(n, path, "the environment has no %s (write ${%s:-default} where it may be missing)", name, name)
}

func (e *expander) fail(n *Node, path, format string, args ...any) error {
	return &ValueError{File: e.file, At: n.At, Key: path, Text: fmt.Sprintf(format, args...)}
}

func variableName(s string) bool {
	for i, r := range s {
		if r != '_' && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (i == 0 || !isDigit(r)) {
			return false
		}
	}
	return s != ""
}
