package pool

import (
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// pruneAge is how long artifacts of other binaries and engines are kept after
// their last use, pruneTemp the same for what a preparation that was killed
// has left.
const (
	pruneAge  = 30 * 24 * time.Hour
	pruneTemp = 24 * time.Hour
)

// prune removes what nobody has used for long. Artifacts in use are locked.
// What cannot be removed stays.
func (s *storage) prune(now time.Time) {
	list, err := os.ReadDir(s.outer)
	if err != nil {
		return
	}
	for _, e := range list {
		info, err := e.Info()
		if err != nil || !e.IsDir() {
			continue
		}
		key, rest, temp := strings.Cut(e.Name(), ".tmp-")
		if _, err := hex.DecodeString(key); err != nil || temp && rest == "" {
			continue // not ours
		}
		age, path := now.Sub(info.ModTime()), filepath.Join(s.outer, e.Name())
		switch {
		case temp && age > pruneTemp:
			_ = os.RemoveAll(path)
		case !temp && age > pruneAge && path != s.path && unused(path):
			s.cfg.Logger.Info("engine artifacts removed, long unused", "folder", path)
			_ = os.RemoveAll(path)
			_ = os.Remove(path + ".lock")
		}
	}
}

// unused says that no supervisor has a folder open.
func unused(path string) bool {
	f, err := os.Open(path) //nolint:gosec // below our own folder
	if err != nil {
		return false
	}
	defer func() { _ = f.Close() }() // which unlocks
	return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil
}
