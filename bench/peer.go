package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// peer is the running Node program that measures the reference (driver.mjs).
// Requests and answers are lines of JSON, one at a time.
type peer struct {
	cmd      *exec.Cmd
	stdin    io.WriteCloser
	answers  *bufio.Reader
	versions peerVersions
}

type peerVersions struct {
	Node      string `json:"node"`
	OpenClaw  string `json:"openclaw"`
	Reference string `json:"reference"` // of the reference's engine
	Engine    string `json:"engine"`    // of the engine of the second column
}

// The systems that the peer can measure.
const (
	systemReference = "reference"
	systemEngine    = "engine"
)

// peerRequest is a line to the peer; the fields depend on the operation.
type peerRequest struct {
	Op         string          `json:"op"`
	System     string          `json:"system,omitempty"`
	Source     string          `json:"source,omitempty"`
	Entries    json.RawMessage `json:"entries,omitempty"`
	UseCatalog bool            `json:"useCatalog,omitempty"`
	Settle     json.RawMessage `json:"settle,omitempty"`
	Count      int             `json:"count,omitempty"`
	WarmUp     int             `json:"warmUp,omitempty"`
	Clients    int             `json:"clients,omitempty"`
	Seconds    float64         `json:"seconds,omitempty"`
	TimeoutMs  int             `json:"timeoutMs,omitempty"`
	BudgetMs   float64         `json:"budgetMs,omitempty"` // after which no more is sampled
}

// peerAnswer is a line from the peer.
type peerAnswer struct {
	Error   string          `json:"error"`
	Ms      []float64       `json:"ms"`
	Value   json.RawMessage `json:"value"`
	Bytes   float64         `json:"bytes"`
	Runs    float64         `json:"runs"`
	Seconds float64         `json:"seconds"`
	Size    int             `json:"size"`
}

// openPeer fetches what the peer needs, if it is not there, and starts it.
func openPeer(ctx context.Context, o options) (*peer, error) {
	if o.noPeer {
		return nil, nil //nolint:nilnil // not wanted, and nothing wrong
	}
	node, err := exec.LookPath("node")
	if err != nil {
		return nil, fmt.Errorf("node is missing: %w", err)
	}
	if err := fetchPeer(ctx, o.nodeDir); err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, node, "driver.mjs") //nolint:gosec // the operator's own node
	cmd.Dir, cmd.Stderr = o.nodeDir, os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the peer: %w", err)
	}
	p := &peer{cmd: cmd, stdin: stdin, answers: bufio.NewReader(stdout)}
	// Once through everything, before anything counts on it.
	err = p.call(peerRequest{Op: "versions"}, &p.versions)
	if err == nil {
		_, err = p.ask(peerRequest{Op: "exec", System: systemReference, Source: smallCell, Count: 1})
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("the peer does not work: %w", err), p.close())
	}
	return p, nil
}

// ask sends a request and waits for its answer.
func (p *peer) ask(q peerRequest) (peerAnswer, error) {
	var a peerAnswer
	if err := p.call(q, &a); err != nil {
		return a, err
	}
	if a.Error != "" {
		return a, fmt.Errorf("peer: %s: %s", q.Op, a.Error)
	}
	return a, nil
}

func (p *peer) call(q peerRequest, answer any) error {
	line, err := json.Marshal(q)
	if err != nil {
		return err
	}
	if _, err := p.stdin.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("ask the peer: %w", err)
	}
	line, err = p.answers.ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("answer of the peer: %w", err)
	}
	if err := json.Unmarshal(line, answer); err != nil {
		return fmt.Errorf("answer of the peer: %w", err)
	}
	return nil
}

// sample measures count execs or resumes and returns their milliseconds.
func (p *peer) sample(q peerRequest, value string) ([]float64, error) {
	a, err := p.ask(q)
	if err == nil && string(a.Value) != value {
		err = fmt.Errorf("peer: %s gave %s, not %s", q.Op, a.Value, value)
	}
	return a.Ms, err
}

// close ends the peer.
func (p *peer) close() error {
	err := p.stdin.Close()
	if wait := p.cmd.Wait(); wait != nil {
		err = errors.Join(err, fmt.Errorf("the peer ended: %w", wait))
	}
	return err
}

// fetchTimeout bounds the download of the peer, some 40 MB.
const fetchTimeout = 10 * time.Minute

// fetchPeer installs the packages of the lock file, unless they are there
// from the same file.
func fetchPeer(ctx context.Context, dir string) error {
	lock, err := os.ReadFile(filepath.Join(dir, "package-lock.json")) //nolint:gosec // the operator's own folder
	if err != nil {
		return err
	}
	sum := sha256.Sum256(lock)
	want := hex.EncodeToString(sum[:])
	stamp := filepath.Join(dir, "node_modules", ".fetched")
	if got, err := os.ReadFile(stamp); err == nil && string(got) == want { //nolint:gosec // as above
		return nil
	}
	npm, err := exec.LookPath("npm")
	if err != nil {
		return fmt.Errorf("npm is missing: %w", err)
	}
	progress("fetching the reference into %s", filepath.Join(dir, "node_modules"))
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error") //nolint:gosec // the operator's own npm
	var output bytes.Buffer
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &output, &output
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("npm ci in %s: %w: %s", dir, err, bytes.TrimSpace(output.Bytes()))
	}
	return os.WriteFile(stamp, []byte(want), 0o600) //nolint:gosec // the operator's own folder
}

// nodeQuickBudget bounds one request with -quick.
const nodeQuickBudget = 1000 // ms

// nodeBudget is how long the peer may go on sampling; 0 for as long as it
// takes.
func (o options) nodeBudget() float64 {
	if o.quick {
		return nodeQuickBudget
	}
	return 0
}
