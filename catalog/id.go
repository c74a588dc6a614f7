package catalog

import "strings"

// The sources of entries, the first segment of their ids.
const (
	sourceOpenClaw = "openclaw"
	sourceMCP      = "mcp"
	sourceClient   = "client"
)

const (
	ownerCore   = "core"
	ownerClient = "app"
)

var segmentEscaper = strings.NewReplacer("%", "%25", ":", "%3A")

// joinID makes "<source>:<owner>:<name>". Colons and percent signs inside the
// segments are percent-encoded, so that different segments give different ids.
func joinID(source, owner, name string) string {
	return source + ":" + segmentEscaper.Replace(owner) + ":" + segmentEscaper.Replace(name)
}

// identity returns the source, the owner and the id under which t is
// catalogued.
func (t *Tool) identity() (source, owner, id string) {
	source, owner = sourceOpenClaw, t.Owner
	switch {
	case t.Kind == KindCore:
		owner = ownerCore
	case t.Kind == KindMCP && t.Trust == nil:
		source = sourceMCP
	case t.Kind == KindClient:
		source = sourceClient
		if owner == "" {
			owner = ownerClient
		}
	}
	return source, owner, joinID(source, owner, t.Name)
}

// ID returns the id under which the tool is catalogued.
func (t *Tool) ID() string {
	_, _, id := t.identity()
	return id
}

// policyNames returns the names by which allow and deny lists may mean t. A
// trusted MCP tool answers to its id as an MCP tool, too.
func (t *Tool) policyNames() []string {
	_, _, id := t.identity()
	names := []string{t.Name, id}
	if t.Kind == KindMCP && t.Trust != nil {
		names = append(names, joinID(sourceMCP, t.Owner, t.Name))
	}
	return names
}
