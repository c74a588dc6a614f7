package upstream

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// dialTimeout bounds the beginning of a connection; what a call takes is
// bounded by the server's CallTimeout.
const dialTimeout = 10 * time.Second

// openHTTP connects to a streamable HTTP server.
func openHTTP(ctx context.Context, s *server) (*session, error) {
	endpoint, err := url.Parse(s.set.URL)
	if err != nil || endpoint.Host == "" || endpoint.Scheme != "http" && endpoint.Scheme != "https" {
		return nil, fmt.Errorf("%q is no http or https URL", s.set.URL)
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSHandshakeTimeout = dialTimeout
	client := &http.Client{
		Transport: &headers{next: transport, own: s.set.Headers},
		// Credentials in headers stay with the host they were given for.
		CheckRedirect: func(r *http.Request, via []*http.Request) error {
			if r.URL.Host != endpoint.Host {
				return errors.New("redirected to another host")
			}
			return nil
		},
	}
	c, err := (&mcp.StreamableClientTransport{
		Endpoint: s.set.URL, HTTPClient: client, DisableStandaloneSSE: true, MaxEventSize: s.line,
	}).Connect(ctx)
	if err != nil {
		return nil, err
	}
	session, err := open(ctx, &closing{Connection: c, idle: transport.CloseIdleConnections}, nil, s.log)
	if err != nil {
		transport.CloseIdleConnections()
		return nil, err
	}
	return session, nil
}

// closing frees the connections that are kept open, after the last of them.
type closing struct {
	mcp.Connection
	idle func()
}

func (c *closing) Close() error {
	defer c.idle()
	return c.Connection.Close()
}

// headers adds the operator's headers and the protocol version, which the
// SDK's connection does not learn behind a link.
type headers struct {
	next http.RoundTripper
	own  map[string]string
}

func (h *headers) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	for k, v := range h.own {
		r.Header.Set(k, v)
	}
	if r.Header.Get("Mcp-Protocol-Version") == "" && r.Header.Get("Mcp-Session-Id") != "" {
		r.Header.Set("Mcp-Protocol-Version", protocolVersion)
	}
	return h.next.RoundTrip(r)
}
