package guest

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func engineBytes(tb testing.TB) []byte {
	tb.Helper()
	wasm, err := LoadEngine("")
	if err != nil {
		tb.Fatal(err)
	}
	return wasm
}

// Every export that the code names is kept, and no other.
func TestSkeletonKeepsWhatIsCalled(t *testing.T) {
	called := []string{"__stack_pointer", "memory", "_initialize"}
	names := regexp.MustCompile(`"((?:qjs|wasm|js)_[a-z0-9_]+)"`)
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") || file == "engine.go" {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range names.FindAllStringSubmatch(string(text), -1) {
			called = append(called, m[1])
		}
	}
	slices.Sort(called)
	if called = slices.Compact(called); !slices.Equal(called, engineExports) {
		t.Errorf("the code calls\n%q\nkept are\n%q", called, engineExports)
	}
}

func TestSkeleton(t *testing.T) {
	s, err := makeSkeleton(engineBytes(t), engineExports)
	if err != nil {
		t.Fatal(err)
	}
	if len(s.wasm) > 10<<10 || len(s.kept) < 400 || len(s.kept) >= s.all {
		t.Errorf("skeleton of %d bytes with %d of %d functions", len(s.wasm), len(s.kept), s.all)
	}
	sections, err := wasmSections(s.wasm)
	if err != nil {
		t.Fatal(err)
	}
	for _, section := range sections {
		if section.id == sectionCustom || section.id >= sectionData {
			t.Errorf("section %d is left", section.id)
		}
	}
}

// An entry has the machine code and the places of the functions that are left.
func TestSkeletonEntry(t *testing.T) {
	s := &skeleton{kept: []uint32{1, 2}, all: 3}
	plain := "WAZEVO\x03abc" + "\x03\x00\x00\x00" + "00000000" + "11111111" + "22222222" + "code and so on"
	got, err := s.entry([]byte(plain))
	if want := "WAZEVO\x03abc" + "\x02\x00\x00\x00" + "11111111" + "22222222" + "code and so on"; err != nil || string(got) != want {
		t.Errorf("%q, %v", got, err)
	}
	for _, bad := range []string{"", "WAZEVO", "WAZEVI\x00", "WAZEVO\xff", plain[:30], strings.Replace(plain, "\x03\x00", "\x04\x00", 1)} {
		if _, err := s.entry([]byte(bad)); !errors.Is(err, errEntry) {
			t.Errorf("%q: error %v", bad, err)
		}
	}
}

// Without the machine code under its name a skeleton is refused, not run.
func TestSkeletonWithoutCode(t *testing.T) {
	s, err := makeSkeleton(engineBytes(t), engineExports)
	if err != nil {
		t.Fatal(err)
	}
	hollow, err := OpenEngine(testContext, s.wasm, "")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = hollow.Close(testContext) }()
	prelude, err := preludeSource()
	if err != nil {
		t.Fatal(err)
	}
	image := imageOf(t, testEngine(t), prelude)
	if vm, err := NewVM(hollow, image, testMemory, &recorder{}); !errors.Is(err, ErrArtifacts) {
		t.Errorf("%v, error %v", vm, err)
	}
	if err := alike(testEngine(t), hollow, filepath.Join(prepared, imageName), image.stackPointer); !errors.Is(err, ErrArtifacts) {
		t.Errorf("the self-test says %v", err)
	}
}

// place is where an exported function is among the kept ones.
func (s *skeleton) place(t *testing.T, name string) uint32 {
	t.Helper()
	sections, err := wasmSections(s.wasm)
	if err != nil {
		t.Fatal(err)
	}
	var imported uint32
	for _, section := range sections {
		switch section.id {
		case sectionImport:
			imported, err = importedFunctions(section.body)
		case sectionExport:
			var exports []wasmExport
			exports, err = readExports(section.body)
			for _, e := range exports {
				if e.name == name {
					return e.index - imported
				}
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Fatalf("no export %s", name)
	return 0
}

// The self-test notices machine code that is not the engine's.
func TestSelfTestNoticesOtherCode(t *testing.T) {
	s, err := makeSkeleton(engineBytes(t), engineExports)
	if err != nil {
		t.Fatal(err)
	}
	yes, no := s.place(t, "qjs_get_true"), s.place(t, "qjs_get_false") // of one signature
	s.kept[yes], s.kept[no] = s.kept[no], s.kept[yes]
	dir := copyOfPrepared(t)
	plain, err := OpenEngine(testContext, engineBytes(t), filepath.Join(dir, "plain"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = plain.Close(testContext) }()
	if err := s.fillCache(testContext, filepath.Join(dir, "plain"), filepath.Join(dir, "other"), plain.digest); err != nil {
		t.Fatal(err)
	}
	other, err := openModule(testContext, s.wasm, filepath.Join(dir, "other"), plain.digest)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Close(testContext) }()
	if err := alike(plain, other, filepath.Join(dir, imageName), readManifest(t, dir).StackPointer); !errors.Is(err, errNotAlike) {
		t.Errorf("the self-test says %v", err)
	}
}

func TestPlainPreparation(t *testing.T) {
	for name, p := range map[string]Preparation{
		"switched off":   {Plain: true, anyWazero: true},
		"another wazero": {},
	} {
		t.Run(name, func(t *testing.T) {
			p.Dir, p.Worker = t.TempDir(), os.Args[0]
			if v := wazeroVersion(); v == skeletonWazero && !p.Plain {
				t.Skipf("this program knows that it has wazero %s", v)
			}
			m, err := Prepare(testContext, p)
			if err != nil {
				t.Fatal(err)
			}
			if m.Skeleton != "" || m.Plain == "" || m.Files[skeletonName] != "" {
				t.Errorf("manifest %+v", m)
			}
			f, err := os.Open(p.Dir)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = f.Close() }()
			a, err := openArtifacts(f)
			if err != nil {
				t.Fatal(err)
			}
			e, err := a.engine(testContext)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = e.Close(testContext) }()
			if err := alike(testEngine(t), e, filepath.Join(p.Dir, imageName), m.StackPointer); err != nil {
				t.Error(err)
			}
		})
	}
}

func FuzzSkeleton(f *testing.F) {
	f.Add([]byte(wasmHeader))
	f.Add([]byte(wasmHeader + "\x01\x04\x01\x60\x00\x00\x03\x02\x01\x00\x07\x05\x01\x01f\x00\x00\x0a\x04\x01\x02\x00\x0b"))
	if s, err := makeSkeleton(engineBytes(f), engineExports); err == nil {
		f.Add(s.wasm)
	}
	f.Fuzz(func(t *testing.T, wasm []byte) {
		s, err := makeSkeleton(wasm, []string{"f", "memory", "qjs_call"})
		if err != nil {
			return
		}
		again, err := makeSkeleton(s.wasm, []string{"f", "memory", "qjs_call"})
		if err != nil {
			t.Fatalf("the skeleton is no module: %v", err)
		}
		if string(again.wasm) != string(s.wasm) {
			t.Errorf("the skeleton of a skeleton is another")
		}
	})
}
