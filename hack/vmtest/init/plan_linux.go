package main

import (
	"fmt"
	"path"
	"slices"
	"time"
)

// slowness is about how many times slower an emulated processor is.
const slowness = "10"

// userID is the ordinary user's.
const userID = 65_533

type account struct {
	name string
	id   int
	// waive are the walls that its workers cannot have.
	waive []string
}

var (
	// The kernel is older than the first with mdwe, 6.3.
	root = account{"root", 0, []string{"mdwe"}}
	// Only root can give each worker a user of its own.
	user     = account{"user", userID, []string{"mdwe", "slot-uid"}}
	accounts = []account{root, user}
)

func (a account) home() string    { return "/home/" + a.name }
func (a account) runtime() string { return fmt.Sprintf("/run/user/%d", a.id) }
func (a account) config() string  { return "/etc/cellblock-" + a.name + ".json5" }

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
	// want is what its output must contain, check what else must be so.
	want  []string
	check func(a account, output string) error
	// limit bounds its time; emulation is slow.
	limit time.Duration
	// just is the only tests to run, where not all can.
	just omission
	// omit is tests that are left out: whole tests first, as a pattern for
	// parts of tests hides those after it.
	omit []omission
	// skips are those that may; with REQUIRE_ALL any other skip fails the run.
	skips []expected
}

// omission leaves tests out, or all others, and says why.
type omission struct{ pattern, why string }

// expected is a whole test that may skip, and why; as one account only where it
// names one.
type expected struct{ test, why, as string }

const (
	again   = "the runs as user do the same"
	noCalls = "computes only, on any kernel alike"
	v1      = "of version 1"
	noTime  = "the others have times that an emulated machine does not keep"
	others  = "needs users of their own"
)

// plan is all runs in their order. The host brings the programs.
var plan = slices.Concat(asBoth(tests), asBoth(programs))

// tests are the packages' tests. Their folders hold their testdata.
var tests = []run{
	{
		name: "cgroup", test: true, dir: "/src/jail/cgroup", argv: []string{"/tests/cgroup.test"},
		skips: []expected{{test: "TestKillSparesForker", why: v1}, {test: "TestUser", why: v1}, {"TestPrepareUnified", "moves between groups as root does", "user"}},
	},
	{
		name: "jail", test: true, dir: "/src/jail", argv: []string{"/tests/jail.test"},
		env:   []string{"JAIL_TEST_WORKER=/worker/worker"},
		omit:  []omission{{"^TestFilterModel$", noCalls}, {"/^user$", again}},
		skips: []expected{{test: "TestHost", why: "says that this kernel has no mdwe"}},
	},
	{
		name: "spawn", test: true, dir: "/src/internal/spawn", argv: []string{"/tests/spawn.test"},
		skips: []expected{
			{test: "TestBornInV1Groups", why: v1},
			{"TestProgramOfOthers", others, "user"},
			{test: "TestKeeperKilled", why: "signals to the group of a pidfd came with kernel 6.9"},
		},
	},
	{
		name: "pool", test: true, dir: "/src/pool", argv: []string{"/tests/pool.test", "-kills=10", "-soak=1m", "-slow=" + slowness},
		env:   []string{"CELLBLOCK_TEST_WEAKENED=/opt/weakened"},
		omit:  []omission{{"^TestUnprivileged$", again}},
		skips: []expected{{"TestUIDOfGivenUpStart", others, "user"}},
	},
	{
		name: "cellblock", test: true, dir: "/src", argv: []string{"/tests/cellblock.test", "-slow=" + slowness},
		just: omission{
			"^(TestExecCallsTools|TestExecAborts|TestExecSurvivesKilledWorker|TestCloseEndsEverything)$",
			noTime,
		},
	},
}

// programs are what users run, in the order in which they would.
var programs = []run{
	{name: "doctor", argv: []string{"/opt/supervisor", "doctor", "--json"}, check: doctored},
	{
		name: "exec", argv: []string{"/opt/supervisor", "exec", "--json", "-e", "return 1+2"},
		want: []string{`"status":"completed","value":3,`},
	},
}

// asBoth is the runs as root, then as the ordinary user.
func asBoth(runs []run) []run {
	all := make([]run, 0, len(accounts)*len(runs))
	for _, a := range accounts {
		for _, r := range runs {
			r.as, r.limit = a, 20*time.Minute
			if r.dir == "" {
				r.dir = a.home()
			}
			if !r.test {
				r.argv = append(slices.Clone(r.argv), "--config", a.config())
			}
			all = append(all, r)
		}
	}
	return all
}

func (r run) String() string { return r.as.name + "/" + r.name }

// maySkip says whether the plan expects that a test skips.
func (r run) maySkip(test string) bool {
	return slices.ContainsFunc(r.skips, func(o expected) bool { return o.test == test && (o.as == "" || o.as == r.as.name) })
}

// wanted says whether one of the patterns, or none at all, asks for the run:
// by its name, or by account/name.
func (r run) wanted(patterns []string) bool {
	if len(patterns) == 0 {
		return true
	}
	for _, p := range patterns {
		for _, name := range []string{r.name, r.String()} {
			if ok, err := path.Match(p, name); err == nil && ok {
				return true
			}
		}
	}
	return false
}
