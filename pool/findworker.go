package pool

import (
	"fmt"
	"os"
	"path/filepath"
)

// FindWorker is the path of the vmworker program: the one that is set, or the
// one beside this program, or the first in PATH. One that is set is not looked
// at. A relative folder of PATH is left out: the working directory may be
// anybody's.
func FindWorker(set string) (string, error) {
	if set != "" {
		return set, nil
	}
	const name = "vmworker"
	var dirs []string
	if self, err := os.Executable(); err == nil {
		if target, err := filepath.EvalSymlinks(self); err == nil {
			self = target
		}
		dirs = append(dirs, filepath.Dir(self))
	}
	beside := dirs
	for _, d := range append(dirs, filepath.SplitList(os.Getenv("PATH"))...) {
		if !filepath.IsAbs(d) {
			continue
		}
		path := filepath.Join(d, name)
		//nolint:gosec // PATH is the operator's own
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return path, nil
		}
	}
	return "", fmt.Errorf("%s was not found: neither beside this program %v nor in PATH; install it there (make install), or name it with engine.worker in the configuration", name, beside)
}
