// Package catalog holds the tools of one agent run: which there are after
// policy, how a cell finds and understands them, and how a call of a cell
// becomes a call of a tool.
//
// # Life of a catalog
//
// [New] applies the policy, gives every tool its id and keeps what is left,
// sorted. It allocates only. What is derived (search index, hints,
// declarations) is built at first use and kept. [Catalog.NewExec] makes the
// view of one exec: namespace scopes are created per exec, the rest is shared.
// The [Exec] answers the requests of that exec and of all its waits.
// [Catalog.Wait] waits for tools that did not return although their call had
// ended.
//
// # What is trusted
//
// Requests come from a guest: every argument is checked here, whatever the
// guest's own side checked before. Names, descriptions and schemas may come
// from anywhere: text is quoted, walks are bounded, schemas are never fetched.
// Only tools of the gateway, of plugins and of trusted MCP servers have hints
// and output contracts.
//
// All types here may be used from several goroutines at once.
package catalog

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Defaults of Config.
const (
	DefaultApprovalTimeout = 15 * time.Minute
	DefaultMaxBridgeBytes  = 16 << 20
)

// Config says what a catalog is made of. Zero fields mean the defaults given.
type Config struct {
	// Tools in the order in which the gateway collected them: of two with one
	// id the first wins.
	Tools   []Tool
	Servers []Server
	// Files are shown to cells beside the MCP declarations.
	Files  []File
	Policy ToolPolicy
	// Namespaces may be nil.
	Namespaces *Registry
	// NamespaceConfig is handed to CreateScope as it is.
	NamespaceConfig any

	MaxSearchLimit     int           // 50
	SearchDefaultLimit int           // 8, at most MaxSearchLimit
	ApprovalTimeout    time.Duration // DefaultApprovalTimeout
	CallTimeout        time.Duration // none; of tools that have no Timeout

	// The executor's doors. Each may be nil.
	Rules    Rules
	Approver Approver
	Hooks    Hooks
	Sink     Sink
	// OnUpdate gets the progress that tools stream. It must not block.
	OnUpdate func(c Call, update json.RawMessage)

	Logger *slog.Logger // none: discard
}

// Catalog holds the tools of one agent run.
type Catalog struct {
	cfg      Config
	log      *slog.Logger
	entries  []*entry // sorted by id
	byID     map[string]*entry
	byName   map[string][]*entry // those not hidden
	direct   []Tool
	sources  Sources
	warnings []string

	index     func() *searchIndex
	surface   func() *mcpSurface
	quick     func() string
	digest    func() [32]byte
	plain     func() *Exec // without namespaces
	tools     func() []byte
	shortcuts func() []byte
	mcp       func() []byte
	schemas   func() []byte
	files     func() []byte

	calls    sync.WaitGroup // tools that run, also those nobody waits for
	sequence atomic.Uint64  // of call ids
	counts   counters
	sink     sync.Mutex // held around Sink.Record, so that events are in order
}

// Sources counts the entries by where they come from. Tools of trusted
// servers count as MCP.
type Sources struct {
	OpenClaw, MCP, Client int
}

// New builds the catalog of a run. It refuses what would leave the model or
// the operator in doubt: two visible tools of one name, a visible tool called
// exec or wait, an owner that could be mistaken for another: a plugin or
// trusted server called "core", a trusted server that is named like a plugin.
//
// # Errors
//
// Every error wraps [ErrConfig] and is the caller's fault.
func New(cfg Config) (*Catalog, error) {
	c := &Catalog{cfg: withDefaults(cfg), byID: make(map[string]*entry), byName: make(map[string][]*entry)}
	c.log = c.cfg.Logger
	if err := c.checkOwners(); err != nil {
		return nil, err
	}
	for i := range c.cfg.Tools {
		if err := c.collect(&c.cfg.Tools[i]); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(c.entries, func(a, b *entry) int { return strings.Compare(a.id, b.id) })
	for _, e := range c.entries {
		if !e.hidden() {
			c.byName[e.tool.Name] = append(c.byName[e.tool.Name], e)
		}
		switch e.tool.Kind {
		case KindMCP:
			c.sources.MCP++
		case KindClient:
			c.sources.Client++
		default:
			c.sources.OpenClaw++
		}
	}
	c.index = sync.OnceValue(func() *searchIndex { return newSearchIndex(c.entries) })
	c.surface = sync.OnceValue(c.buildSurface)
	c.quick = sync.OnceValue(func() string { return buildQuickIndex(c.entries) })
	c.digest = sync.OnceValue(c.buildDigest)
	c.plain = sync.OnceValue(func() *Exec { return &Exec{c: c, part: []byte("[]"), digest: c.digest()} })
	c.tools = sync.OnceValue(c.buildTools)
	c.shortcuts = sync.OnceValue(c.buildShortcuts)
	c.mcp = sync.OnceValue(func() []byte { return c.surface().headersJSON() })
	c.schemas = sync.OnceValue(func() []byte { return c.surface().schemasJSON() })
	c.files = sync.OnceValue(c.buildFiles)
	return c, nil
}

func withDefaults(cfg Config) Config {
	if cfg.MaxSearchLimit <= 0 {
		cfg.MaxSearchLimit = defaultMaxSearchLimit
	}
	if cfg.SearchDefaultLimit <= 0 {
		cfg.SearchDefaultLimit = defaultSearchLimit
	}
	cfg.SearchDefaultLimit = min(cfg.SearchDefaultLimit, cfg.MaxSearchLimit)
	if cfg.ApprovalTimeout <= 0 {
		cfg.ApprovalTimeout = DefaultApprovalTimeout
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	cfg.Tools = slices.Clone(cfg.Tools)
	return cfg
}

// checkOwners refuses owners whose tools could be taken for those of the
// gateway, and trusted servers whose tools could be taken for a plugin's.
func (c *Catalog) checkOwners() error {
	plugins := c.cfg.Namespaces.plugins()
	for i := range c.cfg.Tools {
		if t := &c.cfg.Tools[i]; t.Kind == KindPlugin {
			plugins[t.Owner] = true
		}
	}
	for i := range c.cfg.Tools {
		t := &c.cfg.Tools[i]
		trusted := t.Kind == KindMCP && t.Trust != nil
		switch {
		case t.Owner == "" && (t.Kind == KindPlugin || t.Kind == KindMCP):
			return fmt.Errorf("%w: %v tool %q has no owner", ErrConfig, t.Kind, t.Name)
		case t.Owner == ownerCore && t.Kind == KindPlugin:
			return fmt.Errorf("%w: a plugin cannot be named %q", ErrConfig, ownerCore)
		case t.Owner == ownerCore && trusted:
			return fmt.Errorf("%w: a trusted MCP server cannot be named %q", ErrConfig, ownerCore)
		case trusted && plugins[t.Owner]:
			return fmt.Errorf("%w: trusted MCP server %q is named like a plugin", ErrConfig, t.Owner)
		}
	}
	return nil
}

// collect puts one tool where it belongs: nowhere, before the model, or into
// the catalog.
func (c *Catalog) collect(t *Tool) error {
	if t.isControl() || !c.cfg.Policy.allows(t.policyNames(), t.Kind == KindMCP) {
		return nil
	}
	if t.DirectOnly {
		return c.keepDirect(t)
	}
	e := newEntry(*t)
	if first, taken := c.byID[e.id]; taken {
		c.warn(fmt.Sprintf("tool %q is there twice; the first is kept", first.id))
		return nil
	}
	c.byID[e.id] = e
	c.entries = append(c.entries, e)
	return nil
}

func (c *Catalog) keepDirect(t *Tool) error {
	switch t.Name {
	case "":
		return fmt.Errorf("%w: a direct-only tool has no name", ErrConfig)
	case "exec", "wait":
		return fmt.Errorf("%w: a direct-only tool cannot be named %q", ErrConfig, t.Name)
	}
	for i := range c.direct {
		if c.direct[i].Name == t.Name {
			return fmt.Errorf("%w: two visible tools are named %q", ErrConfig, t.Name)
		}
	}
	c.direct = append(c.direct, *t)
	return nil
}

func (c *Catalog) warn(text string) {
	c.warnings = append(c.warnings, text)
	c.log.Warn("catalog: " + text)
}

// Len returns the number of catalogued tools.
func (c *Catalog) Len() int { return len(c.entries) }

// Sources returns where the entries come from.
func (c *Catalog) Sources() Sources { return c.sources }

// Warnings returns what New found odd and went on with.
func (c *Catalog) Warnings() []string { return slices.Clone(c.warnings) }

// DirectOnly returns the tools that stay visible to the model, in their input
// order. Their output schemas are not for providers.
func (c *Catalog) DirectOnly() []Tool { return slices.Clone(c.direct) }

// IDs returns the ids of all entries, sorted.
func (c *Catalog) IDs() []string {
	ids := make([]string, len(c.entries))
	for i, e := range c.entries {
		ids[i] = e.id
	}
	return ids
}

// HasMCP reports whether a cell finds anything in MCP.
func (c *Catalog) HasMCP() bool { return len(c.surface().servers) > 0 }

// HasNamespaces reports whether a namespace is visible. It asks the registry
// each time.
func (c *Catalog) HasNamespaces() bool { return len(c.visibleNamespaces()) > 0 }

// QuickIndex returns the block of the exec description that lists the tools of
// source openclaw; "" when there are none. It is at most 8,000 UTF-16 units
// and equal for equal catalogs.
func (c *Catalog) QuickIndex() string { return c.quick() }
