package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"net/netip"
	"os"
	runtimepprof "runtime/pprof"
	"time"
)

// headerTimeout bounds the reading of a request for a profile.
const headerTimeout = 10 * time.Second

// profile starts what --pprof asks for: with an address, profiles under
// /debug/pprof/; with anything else a CPU profile into that file. The function
// that it returns ends it.
func profile(ctx context.Context, where string, logs *slog.Logger) (func() error, error) {
	if where == "" {
		return func() error { return nil }, nil
	}
	host, _, err := net.SplitHostPort(where)
	if err != nil {
		return profileTo(where)
	}
	if !isLoopback(host) {
		return nil, misuse(fmt.Errorf("--pprof %s: profiles are served on a loopback address only, such as 127.0.0.1:6060", where))
	}
	return serveProfiles(ctx, where, logs)
}

func isLoopback(host string) bool {
	a, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && a.IsLoopback()
}

func profileTo(file string) (func() error, error) {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600) //nolint:gosec // the operator's own file
	if err != nil {
		return nil, usage(fmt.Errorf("--pprof: %w", err))
	}
	if err := runtimepprof.StartCPUProfile(f); err != nil {
		return nil, failed(errors.Join(fmt.Errorf("--pprof: %w", err), f.Close()))
	}
	return func() error {
		runtimepprof.StopCPUProfile()
		return f.Close()
	}, nil
}

func serveProfiles(ctx context.Context, address string, logs *slog.Logger) (func() error, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, usage(fmt.Errorf("--pprof: %w", err))
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	server := &http.Server{Handler: byItsOwnName(mux), ReadHeaderTimeout: headerTimeout}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }() // ends when the server is closed
	logs.Info("serving profiles", "url", "http://"+l.Addr().String()+"/debug/pprof/")
	return func() error {
		err := server.Close()
		if served := <-ended; !errors.Is(served, http.ErrServerClosed) {
			err = errors.Join(err, served)
		}
		return err
	}, nil
}

// byItsOwnName refuses requests to any other name: that of a web page which has
// pointed its own at this machine.
func byItsOwnName(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host, _, err := net.SplitHostPort(r.Host)
		if err != nil {
			host = r.Host
		}
		if !isLoopback(host) {
			http.Error(w, "profiles are for this machine only", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}
