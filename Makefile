# Every target sets up what it needs. "make help" lists them.
export CGO_ENABLED ?= 0
LINT_VERSION := v2.15.0
# The race detector needs a C compiler.
RACE := $(if $(shell command -v gcc cc clang 2>/dev/null),yes,)

.PHONY: help run test check lint vet deps tidy vmtest soak bench fuzz engine build install clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "%-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: build ## run the example cell against a real MCP server
	bin/supervisor exec --config examples/shipments/cellblock.json5 examples/shipments/cell.ts

test: engine ## run the tests, with the race detector where a C compiler is
	@$(if $(RACE),echo "tests run with the race detector",echo "no C compiler found: tests run WITHOUT the race detector")
	CGO_ENABLED=$(if $(RACE),1,0) go test $(if $(RACE),-race) -timeout 20m ./...
	CGO_ENABLED=$(if $(RACE),1,0) go test $(if $(RACE),-race) -timeout 20m . -args -recycle=session

check: build vet lint tidy deps test vmtest ## everything that a change must pass
	hack/clean-tree

vet: engine
	go vet ./...
	GOARCH=arm64 go vet ./...

vmtest: build ## run the tests of the jail on another kernel, with pure cgroup v2
	hack/vmtest/run --short cgroup jail doctor exec

soak: engine ## run cells for SOAK (default 60s) and look for what is left
	go test . ./jail ./pool -run Soak -timeout 2h -args -soak=$(or $(SOAK),60s)

lint: engine ## run the linters
	hack/lint $(LINT_VERSION)

tidy:
	go mod tidy -diff

deps: ## check what the two programs link
	hack/check-deps

bench: build ## measure; QUICK=1 for a short look
	go run ./bench $(if $(QUICK),-quick)

fuzz: engine ## fuzz every decoder, FUZZTIME (default 10s) each
	hack/fuzz $(or $(FUZZTIME),10s)

engine: ## fetch the pinned engine
	@hack/fetch-engine

build: engine ## build the programs into bin/
	go build -trimpath -o bin/ ./cmd/supervisor ./cmd/vmworker ./examples/shipments

install: engine ## install supervisor and vmworker with go install
	go install -trimpath ./cmd/supervisor ./cmd/vmworker

clean: ## remove what was built and fetched
	rm -rf bin bench/out internal/guest/engine/quickjs.wasm
