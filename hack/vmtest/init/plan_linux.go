package main

import (
	"fmt"
	"path"
	"slices"
	"time"
)

// userID is the ordinary user's.
const userID = 65_533

type account struct {
	name string
	id   int
}

var (
	root     = account{"root", 0}
	user     = account{"user", userID}
	accounts = []account{root, user}
)

func (a account) home() string    { return "/home/" + a.name }
func (a account) runtime() string { return fmt.Sprintf("/run/user/%d", a.id) }

// run is one program, run once.
type run struct {
	name string
	as   account
	// argv is the program, a path, and its arguments. A test gets those of
	// tests besides, see test.
	argv []string
	// test says that the program is one of go test -c.
	test bool
	env  []string
	// dir is where it runs, its home by default.
	dir string
	// want is what its output must contain.
	want []string
	// limit bounds its time; emulation is slow.
	limit time.Duration
}

// plan is all runs in their order. The host puts the programs into /bin.
var plan = slices.Concat(asBoth(tests), asBoth(programs))

// tests are the packages' tests. Their folders hold their testdata.
var tests = []run{
	{name: "cgroup", test: true, dir: "/src/jail/cgroup", argv: []string{"/bin/cgroup.test"}},
	{name: "jail", test: true, dir: "/src/jail", argv: []string{"/bin/jail.test"}, env: []string{"JAIL_TEST_WORKER=/worker/worker"}},
	{name: "spawn", test: true, dir: "/src/internal/spawn", argv: []string{"/bin/spawn.test"}},
	{name: "pool", test: true, dir: "/src/pool", argv: []string{"/bin/pool.test"}},
	{name: "cellblock", test: true, dir: "/src", argv: []string{"/bin/cellblock.test"}},
}

// programs are what users run, in the order in which they would.
var programs = []run{
	{name: "doctor", argv: []string{"/bin/supervisor", "doctor", "--json"}},
	{
		name: "exec", argv: []string{"/bin/supervisor", "exec", "--json", "-e", "return 1+2"},
		want: []string{`"completed"`, `3`},
	},
}

// asBoth is the runs as root, then as the ordinary user.
func asBoth(runs []run) []run {
	all := make([]run, 0, len(accounts)*len(runs))
	for _, a := range accounts {
		for _, r := range runs {
			r.as, r.limit = a, 5*time.Minute
			if r.dir == "" {
				r.dir = a.home()
			}
			if !r.test {
				r.argv = append(slices.Clone(r.argv), "--config", "/etc/"+a.name+".json5")
			}
			all = append(all, r)
		}
	}
	return all
}

// wanted says whether one of the patterns, or none at all, asks for the run:
// by its name, or by account/name.
func (r run) wanted(patterns []string) bool {
	if len(patterns) == 0 {
		return true
	}
	for _, p := range patterns {
		for _, name := range []string{r.name, r.as.name + "/" + r.name} {
			if ok, err := path.Match(p, name); err == nil && ok {
				return true
			}
		}
	}
	return false
}
