// Package profile lets a program be profiled: on a loopback address, or into a
// file.
package profile

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

// headerTimeout bounds the reading of a request for a profile.
const headerTimeout = 10 * time.Second

// ErrAddress says that an address is not one of this machine alone. The error
// names it and the remedy.
var ErrAddress = errors.New("profiles are served on a loopback address only, such as 127.0.0.1:6060")

// IsAddress tells an address from the name of a file.
func IsAddress(where string) bool {
	_, _, err := net.SplitHostPort(where)
	return err == nil
}

// Start starts what where asks for: with an address, profiles under
// /debug/pprof/, of whose URL told is called; with anything else, a CPU profile
// into the file of that name; with "" nothing. The function that it returns ends
// it, and waits for its end.
//
// The CPU profile is one for the process: a second at the same time is an error.
// Errors are the caller's fault, [ErrAddress] among them, but for a failure to
// listen or to write.
func Start(ctx context.Context, where string, told func(url string)) (stop func() error, err error) {
	switch {
	case where == "":
		return func() error { return nil }, nil
	case IsAddress(where):
		return serve(ctx, where, told)
	default:
		return toFile(where)
	}
}

func toFile(name string) (func() error, error) {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600) //nolint:gosec // the operator's own file
	if err != nil {
		return nil, err
	}
	if err := runtimepprof.StartCPUProfile(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return func() error {
		runtimepprof.StopCPUProfile()
		return f.Close()
	}, nil
}

func serve(ctx context.Context, address string, told func(url string)) (func() error, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	if !isLoopback(host) {
		return nil, fmt.Errorf("%s: %w", address, ErrAddress)
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	if a, ok := l.Addr().(*net.TCPAddr); !ok || !a.IP.IsLoopback() { // a resolver may say anything of localhost
		return nil, errors.Join(fmt.Errorf("%s, which is %v: %w", address, l.Addr(), ErrAddress), l.Close())
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	server := &http.Server{Handler: byItsOwnName(mux), ReadHeaderTimeout: headerTimeout}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }() // ends when the server is closed
	told("http://" + l.Addr().String() + "/debug/pprof/")
	return func() error {
		err := server.Close()
		if served := <-ended; !errors.Is(served, http.ErrServerClosed) {
			err = errors.Join(err, served)
		}
		return err
	}, nil
}

func isLoopback(host string) bool {
	a, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && a.IsLoopback()
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
