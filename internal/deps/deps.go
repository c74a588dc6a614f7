//go:build deps

// Package deps pins the modules that rooms still under construction will import.
package deps

import (
	_ "github.com/containerd/cgroups/v3"
	_ "github.com/containerd/cgroups/v3/cgroup1"
	_ "github.com/containerd/cgroups/v3/cgroup2"
	_ "github.com/evanw/esbuild/pkg/api"
	_ "github.com/go-sourcemap/sourcemap"
	_ "github.com/klauspost/compress/zstd"
	_ "github.com/modelcontextprotocol/go-sdk/jsonrpc"
	_ "github.com/modelcontextprotocol/go-sdk/mcp"
	_ "github.com/prometheus/client_golang/prometheus"
	_ "github.com/prometheus/client_golang/prometheus/promhttp"
	_ "github.com/rogpeppe/go-internal/testscript"
	_ "github.com/santhosh-tekuri/jsonschema/v6"
	_ "github.com/shirou/gopsutil/v3/host"
	_ "github.com/shirou/gopsutil/v3/mem"
	_ "github.com/shirou/gopsutil/v3/process"
	_ "github.com/spf13/cobra"
	_ "github.com/tdewolff/parse/v2"
	_ "github.com/tdewolff/parse/v2/js"
	_ "github.com/tetratelabs/wazero"
	_ "github.com/tetratelabs/wazero/experimental"
	_ "github.com/vmihailenco/msgpack/v5"
	_ "go.uber.org/goleak"
	_ "golang.org/x/net/bpf"
	_ "golang.org/x/sys/unix"
	_ "golang.org/x/text/unicode/norm"
	_ "golang.org/x/text/cases"
	_ "pgregory.net/rapid"
)
