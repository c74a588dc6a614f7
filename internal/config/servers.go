package config

import (
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"github.com/cellblock-dev/cellblock/upstream"
)

// Ranges of the numbers of a server.
const (
	minServerTime   = 100 * time.Millisecond
	maxStartTimeout = 10 * time.Minute
	maxCallTimeout  = 24 * time.Hour
)

// readServers reads mcpServers: an object by name, or a list of objects that
// have a name.
func (f *File) readServers(n *Node, path string) error {
	if n == nil || n.Kind == Null {
		return nil
	}
	if f.Servers == nil {
		f.Servers = map[string]upstream.Server{}
	}
	if n.Kind == List {
		return f.readServerList(n, path)
	}
	all := f.open(n, path)
	if all.node == nil {
		return all.end()
	}
	for i := range all.node.Members {
		m := &all.node.Members[i]
		all.ignore(m.Key)
		f.readServer(all, m.Key, m.Value, join(path, m.Key))
	}
	return all.end()
}

func (f *File) readServerList(n *Node, path string) error {
	all := f.open(nil, path)
	for i, item := range n.Items {
		at := fmt.Sprintf("%s[%d]", path, i)
		name := item.Get("name")
		if name == nil || name.Kind != String || name.Text == "" {
			all.fail(item, at, "needs a name")
			continue
		}
		f.readServer(all, name.Text, item, at)
	}
	return all.end()
}

// readServer reads one server. Errors go to all.
func (f *File) readServer(all *section, name string, n *Node, path string) {
	s := f.open(n, path)
	if _, twice := f.Servers[name]; twice {
		s.fail(n, path, fmt.Sprintf("the server %q is there twice", name))
	}
	server := upstream.Server{
		Command: s.str("command", ""), Args: s.strings("args"), Env: s.table("env"), Dir: f.path(s.str("cwd", "")),
		URL: s.str("url", ""), Headers: s.table("headers"),
		StartTimeout:   s.duration("startTimeoutMs", minServerTime, maxStartTimeout),
		CallTimeout:    s.duration("timeoutMs", minServerTime, maxCallTimeout),
		Relist:         s.duration("relistMs", time.Second, maxCallTimeout),
		MaxConcurrency: int(s.integer("maxConcurrency", 1, upstream.MaxConcurrency)),
		Allow:          s.strings("allow"), Deny: s.strings("deny"),
		Trusted: s.boolean("trusted"), TrustChanges: s.boolean("trustChanges"),
		DirectOnly: s.strings("directOnly"), ReplaySafe: s.strings("replaySafe"),
	}
	if server.URL == "" {
		server.URL = s.str("serverUrl", s.str("httpUrl", "")) // as some clients call it
	}
	if server.CallTimeout == 0 {
		server.CallTimeout = s.duration("timeout", minServerTime, maxCallTimeout)
	} else {
		s.ignore("timeout")
	}
	// What other clients keep in the same object and what means nothing here.
	s.ignore("name", "description", "alwaysAllow", "autoApprove", "gallery", "version", "icon")
	off := s.boolean("disabled")
	if on := s.kind("enabled", Bool); on != nil && on.Text == "false" {
		off = true
	}
	skip := f.checkServer(s, n, &server)
	if err := s.end(); err != nil {
		all.errs = append(all.errs, err)
		return
	}
	if !off && !skip {
		f.Servers[name] = server
	}
}

// checkServer looks at what belongs together. It returns true for a server
// that cannot be used and may be left out.
func (f *File) checkServer(s *section, n *Node, server *upstream.Server) (skip bool) {
	kind := s.kind("type", String)
	if kind == nil {
		kind = s.kind("transport", String)
	} else {
		s.ignore("transport")
	}
	if kind != nil {
		switch strings.ToLower(kind.Text) {
		case "stdio", "http", "streamable-http", "streamablehttp", "streamable_http", "local", "remote":
		case "sse":
			s.notice(kind, "type", "the old SSE transport is not supported; the server is left out")
			return true
		default:
			s.fail(kind, join(s.path, "type"), fmt.Sprintf("%q is neither stdio nor http", kind.Text))
		}
	}
	switch {
	case server.Command == "" && server.URL == "":
		s.fail(n, s.path, "needs a command or a url")
	case server.Command != "" && server.URL != "":
		s.fail(n, s.path, "has both a command and a url")
	case server.URL != "" && !webAddress(server.URL):
		s.fail(n, s.path, fmt.Sprintf("the url %q is no http or https address", server.URL))
	}
	return false
}

// webAddress says whether a text is an address that can be connected to. One
// with a variable that is not set has its own error.
func webAddress(text string) bool {
	if strings.Contains(text, "${") {
		return true
	}
	u, err := url.Parse(text)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != ""
}

// path takes a relative path of the file from the file's own folder. A leading
// ~ is the home folder.
func (f *File) path(p string) string {
	if rest, ok := strings.CutPrefix(p, "~/"); ok {
		if home, found := f.lookup("HOME"); found {
			return filepath.Join(home, rest)
		}
	}
	if p == "" || filepath.IsAbs(p) {
		return p
	}
	return filepath.Join(filepath.Dir(f.Path), p)
}
