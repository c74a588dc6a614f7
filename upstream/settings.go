package upstream

import (
	"fmt"
	"strings"
	"time"
)

// Defaults and bounds of a server's settings. A zero field means the default.
const (
	DefaultStartTimeout   = 10 * time.Second
	DefaultCallTimeout    = 120 * time.Second
	DefaultMaxConcurrency = 16
	DefaultRelist         = time.Minute
	// MaxConcurrency is the upper bound of Server.MaxConcurrency.
	MaxConcurrency = 1024
	// DefaultMaxTools and DefaultMaxDefinitionBytes bound what one server may
	// list: tools, and bytes of their definitions.
	DefaultMaxTools           = 2000
	DefaultMaxDefinitionBytes = 8 << 20
	// DefaultMaxLineBytes bounds one message of a server.
	DefaultMaxLineBytes = 32 << 20
	// maxPages bounds the pages of one list.
	maxPages = 200
)

// Server describes one MCP server: either a Command to start or a URL.
type Server struct {
	// Command is looked up in the PATH of the server's environment when it
	// holds no slash; a relative one with a slash is taken from Dir.
	Command string
	Args    []string
	// Env is added to a small base: HOME, LANG, LOGNAME, PATH, SHELL, TERM,
	// TMPDIR, USER and the LC_* and XDG_* variables. Nothing else of our own
	// environment reaches a server.
	Env map[string]string
	// Dir is the working directory; empty: ours.
	Dir string

	// URL is the endpoint of a streamable HTTP server, Headers are sent with
	// every request to it.
	URL     string
	Headers map[string]string

	// StartTimeout bounds a start up to the first complete list of tools.
	StartTimeout time.Duration
	// CallTimeout bounds one call.
	CallTimeout time.Duration
	// MaxConcurrency bounds the calls that run in the server at once; the
	// others queue.
	MaxConcurrency int

	// Relist is how often the tools of a server with a URL are listed again:
	// there is no standing stream on which it could tell of a change.
	Relist time.Duration

	// Allow and Deny are globs over tool names; deny wins, a nil Allow allows
	// all.
	Allow, Deny []string

	// Trusted makes the tools ordinary ones, with hints and output contracts.
	Trusted bool
	// TrustChanges accepts changed definitions of a trusted server. Otherwise
	// they are held back until Confirm.
	TrustChanges bool
	// DirectOnly names the tools that stay visible to the model as they are.
	DirectOnly []string
	// ReplaySafe names the tools that may be called twice without harm.
	ReplaySafe []string
}

func (s Server) check(name string) error {
	switch {
	case strings.TrimSpace(name) == "":
		return fmt.Errorf("%w: a server without a name", ErrConfig)
	case s.Command == "" && s.URL == "":
		return fmt.Errorf("%w: server %s has neither a command nor a URL", ErrConfig, name)
	case s.Command != "" && s.URL != "":
		return fmt.Errorf("%w: server %s has both a command and a URL", ErrConfig, name)
	case s.Trusted && name == "core":
		return fmt.Errorf("%w: a trusted server cannot be named core", ErrConfig)
	}
	for _, glob := range append(append([]string{}, s.Allow...), s.Deny...) {
		if _, err := match(glob, ""); err != nil {
			return fmt.Errorf("%w: server %s: the pattern %q: %w", ErrConfig, name, glob, err)
		}
	}
	return nil
}

func (s Server) withDefaults() Server {
	if s.StartTimeout <= 0 {
		s.StartTimeout = DefaultStartTimeout
	}
	if s.CallTimeout <= 0 {
		s.CallTimeout = DefaultCallTimeout
	}
	if s.MaxConcurrency <= 0 {
		s.MaxConcurrency = DefaultMaxConcurrency
	}
	if s.Relist <= 0 {
		s.Relist = DefaultRelist
	}
	s.MaxConcurrency = min(s.MaxConcurrency, MaxConcurrency)
	return s
}
