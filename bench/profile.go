package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"net/netip"
	"os"
	runtimepprof "runtime/pprof"
	"time"
)

// profile starts what -pprof asks for: with a loopback address the usual
// profiles under /debug/pprof/, with anything else a CPU profile into that
// file. The function that it returns ends it.
func profile(ctx context.Context, where string) (func() error, error) {
	if where == "" {
		return func() error { return nil }, nil
	}
	host, _, err := net.SplitHostPort(where)
	if err != nil {
		return profileTo(where)
	}
	if a, err := netip.ParseAddr(host); host != "localhost" && (err != nil || !a.IsLoopback()) {
		return nil, fmt.Errorf("-pprof %s: profiles are served on a loopback address only", where)
	}
	return serveProfiles(ctx, where)
}

// isAddress tells an address from a file.
func isAddress(where string) bool {
	_, _, err := net.SplitHostPort(where)
	return err == nil
}

func profileTo(file string) (func() error, error) {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600) //nolint:gosec // the operator's own file
	if err != nil {
		return nil, fmt.Errorf("-pprof: %w", err)
	}
	if err := runtimepprof.StartCPUProfile(f); err != nil {
		return nil, errors.Join(fmt.Errorf("-pprof: %w", err), f.Close())
	}
	return func() error {
		runtimepprof.StopCPUProfile()
		return f.Close()
	}, nil
}

// headerTimeout bounds the reading of a request's header.
const headerTimeout = 10 * time.Second

func serveProfiles(ctx context.Context, address string) (func() error, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("-pprof: %w", err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	server := &http.Server{Handler: mux, ReadHeaderTimeout: headerTimeout}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }() // ends when the server is closed
	progress("profiles on http://%s/debug/pprof/", l.Addr())
	return func() error {
		err := server.Close()
		if served := <-ended; !errors.Is(served, http.ErrServerClosed) {
			err = errors.Join(err, served)
		}
		return err
	}, nil
}
