package cellblock_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var (
	ruleInReference = regexp.MustCompile(`\*\*([0-9.]+#[A-Za-z0-9]+)\*\*`)
	lineOfRule      = regexp.MustCompile(`^\| ([0-9.]+#\S+) \| (.*) \|$`)
	testInLine      = regexp.MustCompile("`([^`]+)`")
)

// needSources skips a test that looks at the project itself where only the
// built test is.
func needSources(t *testing.T) {
	t.Helper()
	if _, err := os.Stat("go.mod"); err != nil {
		if os.Getenv("REQUIRE_ALL") != "" {
			t.Fatal("the sources are not here")
		}
		t.Skip("the sources are not here")
	}
}

// TestConformance holds docs/conformance.md against the rules of
// docs/reference.md and against the tests that there are.
func TestConformance(t *testing.T) {
	t.Parallel()
	needSources(t)
	reference, err := os.ReadFile("docs/reference.md")
	if err != nil {
		t.Fatal(err)
	}
	conformance, err := os.ReadFile("docs/conformance.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, problem := range conformanceProblems(string(reference), string(conformance), newTestIndex()) {
		t.Error(problem)
	}
}

// conformanceProblems says what is wrong with the list of rules and tests.
func conformanceProblems(reference, conformance string, tests *testIndex) []string {
	var problems []string
	rules := map[string]bool{}
	for _, m := range ruleInReference.FindAllStringSubmatch(reference, -1) {
		if rules[m[1]] {
			problems = append(problems, "rule "+m[1]+" is there twice")
		}
		rules[m[1]] = true
	}
	listed := map[string]bool{}
	for line := range strings.SplitSeq(conformance, "\n") {
		m := lineOfRule.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		rule, names := m[1], testInLine.FindAllStringSubmatch(m[2], -1)
		switch {
		case listed[rule]:
			problems = append(problems, "rule "+rule+" is listed twice")
		case !rules[rule]:
			problems = append(problems, "rule "+rule+" is not in the reference")
		case len(names) == 0:
			problems = append(problems, "rule "+rule+" has no test")
		}
		listed[rule] = true
		for _, name := range names {
			if err := tests.find(name[1]); err != nil {
				problems = append(problems, fmt.Sprintf("rule %s: %v", rule, err))
			}
		}
	}
	for _, rule := range slices.Sorted(maps.Keys(rules)) {
		if !listed[rule] {
			problems = append(problems, "rule "+rule+" has no line")
		}
	}
	return problems
}

// testIndex knows the tests of the packages it was asked about.
type testIndex struct {
	packages map[string]*packageTests
}

// packageTests are the names of the test functions of a package, each with the
// texts in its body, which may be names of subtests.
type packageTests struct {
	functions map[string]map[string]bool
}

func newTestIndex() *testIndex { return &testIndex{map[string]*packageTests{}} }

// find looks for a test: [folder.]Function[/subtest].
func (x *testIndex) find(name string) error {
	dir, function := ".", name
	if at := strings.Index(name, ".Test"); at >= 0 {
		dir, function = name[:at], name[at+1:]
	}
	function, subtest, isSubtest := strings.Cut(function, "/")
	p, err := x.load(dir)
	if err != nil {
		return err
	}
	texts, ok := p.functions[function]
	if !ok {
		return fmt.Errorf("there is no %s in %s", function, dir)
	}
	if isSubtest && !texts[subtest] {
		return fmt.Errorf("%s in %s has no subtest %q", function, dir, subtest)
	}
	return nil
}

// load parses the test files of a folder.
func (x *testIndex) load(dir string) (*packageTests, error) {
	if p := x.packages[dir]; p != nil {
		return p, nil
	}
	files, err := filepath.Glob(path.Join(dir, "*_test.go"))
	if err != nil {
		return nil, fmt.Errorf("look for tests in %s: %w", dir, err)
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("no tests in %s", dir)
	}
	p := &packageTests{map[string]map[string]bool{}}
	for _, file := range files {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && strings.HasPrefix(fn.Name.Name, "Test") {
				p.functions[fn.Name.Name] = textsIn(fn)
			}
		}
	}
	x.packages[dir] = p
	return p, nil
}

func textsIn(fn *ast.FuncDecl) map[string]bool {
	texts := map[string]bool{}
	ast.Inspect(fn, func(n ast.Node) bool {
		if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			if s, err := strconv.Unquote(lit.Value); err == nil {
				texts[s] = true
			}
		}
		return true
	})
	return texts
}

// TestConformanceFindsFaults: the check itself can fail.
func TestConformanceFindsFaults(t *testing.T) {
	t.Parallel()
	needSources(t)
	const reference = "- **1#p1** One.\n- **1#1** Two.\n"
	for _, tc := range []struct{ conformance, problem string }{
		{"| 1#p1 | `TestConformance` |\n| 1#1 | `catalog.TestPolicy` |", ""},
		{"| 1#p1 | `TestConformance` |", "rule 1#1 has no line"},
		{"| 1#p1 | `TestConformance` |\n| 1#1 | none |", "rule 1#1 has no test"},
		{"| 1#p1 | `TestConformance` |\n| 1#1 | `TestNothing` |", "there is no TestNothing in ."},
		{"| 1#p1 | `TestConformance` |\n| 1#1 | `nowhere.TestPolicy` |", "no tests in nowhere"},
		{"| 1#p1 | `TestConformance` |\n| 1#1 | `TestConformance/nothing of it` |", "has no subtest"},
		{"| 1#p1 | `TestConformance` |\n| 1#1 | `TestConformance` |\n| 1#1 | `TestConformance` |", "listed twice"},
		{"| 1#p1 | `TestConformance` |\n| 1#1 | `TestConformance` |\n| 2#1 | `TestConformance` |", "not in the reference"},
	} {
		problems := conformanceProblems(reference, tc.conformance, newTestIndex())
		switch {
		case tc.problem == "" && len(problems) > 0:
			t.Errorf("%q: %q", tc.conformance, problems)
		case tc.problem != "" && (len(problems) != 1 || !strings.Contains(problems[0], tc.problem)):
			t.Errorf("%q: %q, want %q", tc.conformance, problems, tc.problem)
		}
	}
}
