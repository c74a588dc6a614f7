package upstream

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"sync"
)

// maxTrustBytes bounds one file of remembered definitions.
const maxTrustBytes = 8 << 20

// memory keeps the hashes of the definitions that a trusted server had when
// its operator accepted them: one file a server in the state folder. Without a
// folder it remembers for the life of the process only.
type memory struct {
	dir string

	mu   sync.Mutex
	seen map[string]map[string]string // server, tool, hash; guarded by mu
}

func newMemory(dir string) *memory {
	return &memory{dir: dir, seen: map[string]map[string]string{}}
}

// review splits definitions into those that are as they were accepted and the
// names of those that are not. The first list of a server is accepted as it
// is.
func (m *memory) review(server string, all []definition) (accepted []definition, held []string, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	known, err := m.loadLocked(server)
	if err != nil {
		return nil, nil, err
	}
	if known == nil {
		return all, nil, m.storeLocked(server, all)
	}
	for _, d := range all {
		if known[d.Name] == d.digest() {
			accepted = append(accepted, d)
		} else {
			held = append(held, d.Name)
		}
	}
	return accepted, held, nil
}

// confirm accepts the definitions as they are now.
func (m *memory) confirm(server string, all []definition) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.storeLocked(server, all)
}

func (m *memory) file(server string) string {
	return filepath.Join(m.dir, "trusted-"+url.PathEscape(server)+".json")
}

func (m *memory) loadLocked(server string) (map[string]string, error) {
	if known, ok := m.seen[server]; ok || m.dir == "" {
		return known, nil
	}
	name := m.file(server)
	info, err := os.Stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil && info.Size() > maxTrustBytes {
		err = fmt.Errorf("larger than %d bytes", maxTrustBytes)
	}
	var text []byte
	if err == nil {
		text, err = os.ReadFile(name) //nolint:gosec // below our own folder, the name escaped
	}
	known := map[string]string{}
	if err == nil {
		err = json.Unmarshal(text, &known)
	}
	if err != nil {
		// Fail closed: an unreadable memory accepts nothing.
		return nil, fmt.Errorf("read accepted definitions %s: %w", name, err)
	}
	m.seen[server] = known
	return known, nil
}

func (m *memory) storeLocked(server string, all []definition) error {
	known := make(map[string]string, len(all))
	for _, d := range all {
		known[d.Name] = d.digest()
	}
	m.seen[server] = known
	if m.dir == "" {
		return nil
	}
	text, err := json.MarshalIndent(known, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(m.dir, 0o700); err != nil {
		return fmt.Errorf("keep accepted definitions: %w", err)
	}
	// A name of its own until it is whole: readers see the old or the new one.
	f, err := os.CreateTemp(m.dir, ".trusted-*")
	if err != nil {
		return fmt.Errorf("keep accepted definitions: %w", err)
	}
	_, err = f.Write(append(text, '\n'))
	err = errors.Join(err, f.Close())
	if err == nil {
		err = os.Rename(f.Name(), m.file(server))
	}
	if err != nil {
		_ = os.Remove(f.Name())
		return fmt.Errorf("keep accepted definitions: %w", err)
	}
	return nil
}
