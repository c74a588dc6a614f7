//go:build linux

package jail_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// The table of attacks is made by the suite itself: what it saw on each kernel
// lies in testdata/attacks, one file a kernel, and docs/attacks.md is written
// from these files and the rows below.
//
//	go test -run Attack ./jail -update              this kernel, then the document
//	go test -run AttackDocument ./jail -update -log FILE
//	                                                another: the log of hack/vmtest/run
const (
	attackDir      = "testdata/attacks"
	attackDocument = "../docs/attacks.md"
	// attackMark begins the line by which the log of another machine carries
	// what the suite saw there.
	attackMark = "attacks: "
)

var attackLog = flag.String("log", "", "the log of hack/vmtest/run to take another kernel's answers from")

func updating() bool { return flag.Lookup("update").Value.String() == "true" }

// seen is what the suite saw on one kernel, as root: for each probe the
// answers under the filter, under the refusing one and without.
type seen struct {
	Kernel  string              `json:"kernel"`
	Machine string              `json:"machine"`
	Answers map[string][]string `json:"answers"`
}

func (s seen) version() string {
	f := strings.SplitN(s.Kernel, ".", 3)
	return strings.Join(f[:min(2, len(f))], ".")
}

func (s seen) path() string { return filepath.Join(attackDir, s.version()+"-"+s.Machine+".json") }

func (s seen) write(t *testing.T) {
	t.Helper()
	b, err := json.MarshalIndent(s, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	// One line a probe.
	b = regexp.MustCompile(`\[\s+("[^"]*"),\s+("[^"]*"),\s+("[^"]*")\s+\]`).ReplaceAll(b, []byte("[$1, $2, $3]"))
	if err := os.MkdirAll(attackDir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(s.path(), append(b, '\n'), 0o644); err != nil {
		t.Fatal(err)
	}
}

// remember compares what the suite saw with what is written down of this
// kernel, or writes it.
func remember(t *testing.T, answers map[string][]string) {
	t.Helper()
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		t.Fatal(err)
	}
	for _, p := range probes {
		missing := p.name == "vsyscall" && answers[p.name][0] == noPage
		for i, answer := range answers[p.name] {
			if missing || p.since != "" && i == 2 {
				answers[p.name][i] = "not on this kernel (" + answer + ")"
			}
		}
	}
	now := seen{Kernel: kernel(), Machine: unix.ByteSliceToString(u.Machine[:]), Answers: answers}
	line, err := json.Marshal(now)
	if err != nil {
		t.Fatal(err)
	}
	t.Log(attackMark + string(line))
	if updating() {
		now.write(t)
		document(t)
		return
	}
	b, err := os.ReadFile(now.path())
	if err != nil {
		t.Logf("nothing is written down of kernel %s; -update does", now.Kernel)
		return
	}
	var then seen
	if err := json.Unmarshal(b, &then); err != nil {
		t.Fatal(err)
	}
	if then.Kernel != now.Kernel {
		t.Logf("written down of %s, this is %s: the same answers are not expected", then.Kernel, now.Kernel)
		return
	}
	for _, p := range probes {
		if !slices.Equal(then.Answers[p.name], answers[p.name]) {
			t.Errorf("%s: answered %q, written down is %q; review, then run with -update", p.name, answers[p.name], then.Answers[p.name])
		}
	}
	if len(then.Answers) != len(answers) {
		t.Errorf("%d attempts are written down, %d were made; run with -update", len(then.Answers), len(answers))
	}
}

// fromLog takes what the suite saw on another machine.
func fromLog(t *testing.T, path string) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	found := false
	for line := range bytes.Lines(b) {
		_, text, ok := bytes.Cut(line, []byte(attackMark+"{"))
		if !ok {
			continue
		}
		var s seen
		if err := json.Unmarshal(append([]byte("{"), text...), &s); err != nil {
			t.Fatalf("the line of %s: %v", path, err)
		}
		s.write(t)
		found = true
	}
	if !found {
		t.Fatalf("%s carries no answers: run hack/vmtest/run root/jail", path)
	}
}

// TestAttackDocument holds docs/attacks.md against what was seen and against
// the tests that it names.
func TestAttackDocument(t *testing.T) {
	if _, err := os.Stat(filepath.Dir(attackDocument)); err != nil {
		return // the tests run elsewhere than in their repository
	}
	if *attackLog != "" {
		fromLog(t, *attackLog)
	}
	document(t)
}

// document writes the document when told to, and compares it.
func document(t *testing.T) {
	t.Helper()
	all := readSeen(t)
	names := map[string]bool{}
	for _, s := range all {
		for name := range s.Answers {
			names[name] = true
		}
	}
	for _, p := range probes {
		if !names[p.name] {
			t.Errorf("probe %s is in no file of %s; run with -update", p.name, attackDir)
		}
		if !slices.ContainsFunc(attacks, func(a attack) bool { return a.row == p.row }) {
			t.Errorf("probe %s belongs to row %d, which is not in the list", p.name, p.row)
		}
	}
	var b bytes.Buffer
	b.WriteString(attackHead)
	for _, s := range all {
		fmt.Fprintf(&b, "- %s: Linux %s, %s\n", s.version(), s.Kernel, s.Machine)
	}
	writeProbes(&b, all)
	writeAttacks(t, &b)
	if updating() {
		if err := os.WriteFile(attackDocument, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(attackDocument)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, b.Bytes()) {
		t.Errorf("%s is not what the suite would write; run go test -run Attack ./jail -update", attackDocument)
	}
}

func readSeen(t *testing.T) []seen {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(attackDir, "*.json"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no answers in %s (%v); run with -update", attackDir, err)
	}
	all := make([]seen, 0, len(paths))
	for _, path := range paths {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var s seen
		if err := json.Unmarshal(b, &s); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b seen) int { return cmp.Compare(b.version(), a.version()) })
	return all
}

const attackHead = `# Attacks

What a worker that has been taken over could try, and what happened when the test suite tried it.
This file is written by the suite (` + "`go test -run Attack ./jail -update`" + `), and a test fails when it is not
what the suite sees.

## Out of the jail

Each attempt is a raw system call, made by a worker of its own after the whole jail stands, under three
regimes:

- **full**: the jail as it is. SIGSYS is the death of the whole process by the filter.
- **refusing**: the same filter, but it refuses (ENOSYS) instead of killing. One worker makes all attempts and
  must live through them.
- **none**: no filter at all, to show the walls behind it. "ok" marks what the filter alone keeps away.
  "not on this kernel" marks a call or a wall that came with a later kernel, with the answer in brackets.

The columns are kernels, as root. The suite holds an ordinary user to the same answers.

`

// writeProbes writes the first table.
func writeProbes(b *bytes.Buffer, all []seen) {
	b.WriteString("\n| row | attempt | call |")
	for _, s := range all {
		for _, regime := range []string{"full", "refusing", "none"} {
			fmt.Fprintf(b, " %s %s |", s.version(), regime)
		}
	}
	b.WriteString(" behind the filter |\n|" + strings.Repeat("---|", 3+3*len(all)+1) + "\n")
	byRow := map[int][]string{}
	for _, p := range probes {
		byRow[p.row] = append(byRow[p.row], p.name)
	}
	for _, a := range attacks {
		for i, name := range byRow[a.row] {
			row, what, behind := "", "", ""
			if i == 0 {
				row, what, behind = strconv.Itoa(a.row), a.what, a.behind
			}
			fmt.Fprintf(b, "| %s | %s | %s |", row, what, name)
			for _, s := range all {
				answers := s.Answers[name]
				for i := range 3 {
					answer := "-"
					if i < len(answers) && answers[i] != "" {
						answer = answers[i]
					}
					fmt.Fprintf(b, " %s |", answer)
				}
			}
			fmt.Fprintf(b, " %s |\n", behind)
		}
	}
}

// writeAttacks writes the second table, and holds the tests it names against
// the source.
func writeAttacks(t *testing.T, b *bytes.Buffer) {
	t.Helper()
	b.WriteString(attackTail)
	have := map[string]bool{}
	for _, a := range attacks {
		if len(a.tests) == 0 {
			continue
		}
		named := make([]string, 0, len(a.tests))
		for _, test := range a.tests {
			dir, name, _ := strings.Cut(test, ":")
			if !have[dir] {
				maps.Copy(have, testsIn(t, dir))
				have[dir] = true
			}
			if !have[test] {
				t.Errorf("row %d names the test %s, which does not exist", a.row, test)
			}
			where := "`" + name + "`"
			if dir != "jail" {
				where += " (" + dir + ")"
			}
			named = append(named, where)
		}
		fmt.Fprintf(b, "| %d | %s | %s | %s |\n", a.row, a.what, a.then, strings.Join(named, ", "))
	}
}

// testsIn are the tests of a folder of the repository, as folder:name.
func testsIn(t *testing.T, dir string) map[string]bool {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join("..", dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]bool{}
	for _, path := range paths {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`).FindAllSubmatch(b, -1) {
			all[dir+":"+string(m[1])] = true
		}
	}
	return all
}
