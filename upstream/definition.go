package upstream

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"path"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// definition is one tool as its server describes it. Schemas stay as they are.
type definition struct {
	Name         string          `json:"name"`
	Title        string          `json:"title"`
	Description  string          `json:"description"`
	InputSchema  json.RawMessage `json:"inputSchema"`
	OutputSchema json.RawMessage `json:"outputSchema"`

	hash string // sum, where it is needed often; else empty
}

// digest is sum, computed once where that was worth it.
func (d definition) digest() string {
	if d.hash != "" {
		return d.hash
	}
	return d.sum()
}

// listLimits bound what one server may list.
type listLimits struct {
	tools int
	bytes int64
}

// page is one answer to tools/list.
type page struct {
	Tools      []json.RawMessage `json:"tools"`
	NextCursor json.RawMessage   `json:"nextCursor"`
}

// lister gathers the pages of one list.
type lister struct {
	limits  listLimits
	log     *slog.Logger
	size    int64
	names   map[string]bool
	cursors map[string]bool
	found   []definition
}

// list reads all pages of a server's tools. A server that pages for ever, or
// lists too much, gives what came before the limit; the log says so.
func list(ctx context.Context, l *link, limits listLimits, logger *slog.Logger) ([]definition, error) {
	r := &lister{limits: limits, log: logger, names: map[string]bool{}, cursors: map[string]bool{}}
	var cursor json.RawMessage
	for range maxPages {
		p, err := readPage(ctx, l, cursor)
		if err != nil {
			return nil, err
		}
		if !r.take(p) {
			return r.found, nil
		}
		cursor = p.NextCursor
	}
	logger.Warn("the list of tools has too many pages; the rest is left out", "tools", len(r.found), "maxPages", maxPages)
	return r.found, nil
}

// take adds a page; it returns whether there is a next one to ask for.
func (r *lister) take(p page) bool {
	for _, raw := range p.Tools {
		r.size += int64(len(raw))
		if len(r.found) >= r.limits.tools || r.size > r.limits.bytes {
			r.log.Warn("the list of tools is cut", "tools", len(r.found), "maxTools", r.limits.tools, "maxDefinitionBytes", r.limits.bytes)
			return false
		}
		d, err := readDefinition(raw)
		if err == nil && r.names[d.Name] {
			err = errors.New("the name is listed twice")
		}
		if err != nil {
			r.log.Warn("a tool is left out", "tool", shorten(raw, maxJunkShown), "reason", err)
			continue
		}
		r.names[d.Name] = true
		r.found = append(r.found, d)
	}
	cursor := string(p.NextCursor)
	if cursor == "" || cursor == "null" || cursor == `""` {
		return false
	}
	if r.cursors[cursor] {
		r.log.Warn("the list of tools has a page that leads back; the rest is left out", "tools", len(r.found))
		return false
	}
	r.cursors[cursor] = true
	return true
}

func readPage(ctx context.Context, l *link, cursor json.RawMessage) (page, error) {
	params := json.RawMessage("{}")
	if cursor != nil {
		params = json.RawMessage(`{"cursor":` + string(cursor) + `}`)
	}
	raw, err := l.request(ctx, "tools/list", func(int64) json.RawMessage { return params }, nil)
	var p page
	var reply *ReplyError
	if errors.As(err, &reply) && reply.Code == jsonrpc.CodeMethodNotFound {
		return p, nil // a server without tools
	}
	if err != nil {
		return p, fmt.Errorf("list tools: %w", err)
	}
	if err := json.Unmarshal(raw, &p); err != nil {
		return p, fmt.Errorf("list tools: %w", err)
	}
	return p, nil
}

func readDefinition(raw json.RawMessage) (definition, error) {
	var d definition
	// Only the name is needed; a title or a description of a wrong type is
	// nothing to lose a tool for.
	var loose struct {
		Name         any             `json:"name"`
		Title        any             `json:"title"`
		Description  any             `json:"description"`
		InputSchema  json.RawMessage `json:"inputSchema"`
		OutputSchema json.RawMessage `json:"outputSchema"`
	}
	if err := json.Unmarshal(raw, &loose); err != nil {
		return d, err
	}
	d.Name, _ = loose.Name.(string)
	d.Title, _ = loose.Title.(string)
	d.Description, _ = loose.Description.(string)
	if d.Name == "" {
		return d, errors.New("it has no name")
	}
	d.InputSchema, d.OutputSchema = object(loose.InputSchema), object(loose.OutputSchema)
	if d.InputSchema == nil {
		d.InputSchema = json.RawMessage(`{"type":"object"}`)
	}
	return d, nil
}

// object returns JSON that is an object, nil for everything else.
func object(raw json.RawMessage) json.RawMessage {
	if raw = bytes.TrimSpace(raw); len(raw) == 0 || raw[0] != '{' {
		return nil
	}
	return raw
}

// sum is the hash of everything of a definition that a model acts upon. The
// order of keys in a schema does not matter: some servers write it by chance.
func (d definition) sum() string {
	h := sha256.New()
	for _, part := range [][]byte{[]byte(d.Name), []byte(d.Title), []byte(d.Description), canonical(d.InputSchema), canonical(d.OutputSchema)} {
		_, _ = fmt.Fprintf(h, "%d:", len(part))
		_, _ = h.Write(part)
	}
	return hex.EncodeToString(h.Sum(nil))
}

func canonical(raw json.RawMessage) []byte {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var v any
	if dec.Decode(&v) != nil {
		return raw
	}
	out, err := json.Marshal(v)
	if err != nil {
		return raw
	}
	return out
}

// match says whether a glob of the configuration means a name.
func match(glob, name string) (bool, error) {
	return path.Match(glob, name)
}

func matchAny(globs []string, name string) bool {
	for _, g := range globs {
		if ok, err := match(g, name); ok && err == nil {
			return true
		}
	}
	return false
}

// allowed applies the lists of the operator.
func (s Server) allowed(name string) bool {
	return (s.Allow == nil || matchAny(s.Allow, name)) && !matchAny(s.Deny, name)
}
