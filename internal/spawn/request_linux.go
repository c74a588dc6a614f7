package spawn

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// message turns the request into what is sent: the fields, without the id,
// and, in the order that Serve expects, the borrowed files.
func (r *Request) message() (*spawn, []*os.File, error) {
	if err := r.check(); err != nil {
		return nil, nil, fmt.Errorf("%w: %w", ErrRequest, err)
	}
	m := &spawn{
		path: r.Path, dir: r.Dir, argv: r.Argv, env: r.Env, jail: r.Jail,
		program: r.Program != nil, stdin: r.Stdin != nil, stdout: r.Stdout != nil, cgroup: r.Cgroup != nil,
		tasks: len(r.Tasks), files: len(r.Files),
	}
	var files []*os.File
	for _, f := range []*os.File{r.Program, r.Stdin, r.Stdout, r.Cgroup} {
		if f != nil {
			files = append(files, f)
		}
	}
	return m, slices.Concat(files, r.Tasks, r.Files), nil
}

func (r *Request) check() error {
	if (r.Program == nil) == (r.Path == "") {
		return errors.New("want exactly one of Program and Path")
	}
	if r.Path != "" && !filepath.IsAbs(r.Path) {
		return fmt.Errorf("path %q is not absolute", r.Path)
	}
	if r.Dir != "" && !filepath.IsAbs(r.Dir) {
		return fmt.Errorf("directory %q is not absolute", r.Dir)
	}
	if len(r.Argv) == 0 {
		return errors.New("no arguments, not even a name")
	}
	if len(r.Files) > MaxFiles || len(r.Tasks) > MaxTasks {
		return fmt.Errorf("%d files and %d tasks files, the limits are %d and %d", len(r.Files), len(r.Tasks), MaxFiles, MaxTasks)
	}
	if slices.Contains(r.Files, nil) || slices.Contains(r.Tasks, nil) {
		return errors.New("nil among the files")
	}
	for _, s := range slices.Concat([]string{r.Path, r.Dir}, r.Argv, r.Env) {
		if strings.IndexByte(s, 0) >= 0 {
			return fmt.Errorf("NUL byte in %q", s)
		}
	}
	return nil
}
