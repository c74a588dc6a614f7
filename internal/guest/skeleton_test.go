package guest

import (
	"encoding/hex"
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

// preparedImage is the base image of a folder.
func preparedImage(t *testing.T, dir string) *Image {
	t.Helper()
	f, err := os.Open(filepath.Join(dir, imageName))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	image, err := openImage(f, [32]byte{}, readManifest(t, dir).StackPointer)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = image.close() })
	return image
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
	const head = "WAZEVO\x03abc"
	const text = head + "\x03\x00\x00\x00" + "00000000" + "11111111" + "22222222" + "\x04\x00\x00\x00\x00\x00\x00\x00" + "code" + "and so on"
	plain, err := parseEntry([]byte(text), true)
	if err != nil {
		t.Fatal(err)
	}
	s := &skeleton{kept: []uint32{1, 2}, all: 3}
	e, err := s.entry(plain)
	if err != nil {
		t.Fatal(err)
	}
	const want = head + "\x02\x00\x00\x00" + "11111111" + "22222222" + "\x04\x00\x00\x00\x00\x00\x00\x00" + "and so on"
	if got := string(e.withoutCode()); got != want {
		t.Errorf("%q", got)
	}
	if code := e.paddedCode(); len(code) != osPageBytes || string(code[:5]) != "code\x00" {
		t.Errorf("code of %d bytes, %q", len(code), code[:5])
	}
	again, err := parseEntry([]byte(want), false)
	if err != nil || again.size != 4 || string(again.rest) != "and so on" {
		t.Errorf("%+v, %v", again, err)
	}
	for _, bad := range []string{"", "WAZEVO", "WAZEVI\x00", "WAZEVO\xff", text[:12], text[:30], text[:44], text[:50]} {
		if _, err := parseEntry([]byte(bad), true); !errors.Is(err, errEntry) {
			t.Errorf("%q: error %v", bad, err)
		}
	}
	s.all = 4
	if _, err := s.entry(plain); !errors.Is(err, errEntry) {
		t.Errorf("an entry of another module: %v", err)
	}
}

// Code of another processor is refused, not run.
func TestSkeletonWithoutCode(t *testing.T) {
	m := readManifest(t, prepared)
	engine, err := parseSum(m.Engine)
	if err != nil {
		t.Fatal(err)
	}
	_, code, err := openSkeleton(testContext, prepared, [32]byte{1}, engine)
	if !errors.Is(err, ErrArtifacts) || !errors.Is(err, errNoCode) {
		t.Errorf("error %v", err)
	}
	if hex.EncodeToString(code.asked[:]) != m.Code {
		t.Errorf("asked for %x, the manifest has %s", code.asked, m.Code)
	}
}

// Code that is not what wazero compiled is noticed at the start.
func TestSkeletonWithDamagedCode(t *testing.T) {
	dir := copyOfPrepared(t)
	path := filepath.Join(dir, codeName)
	code, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	code[len(code)/2] ^= 1
	for name, damaged := range map[string][]byte{"a bit": code, "cut": code[:len(code)/2/osPageBytes*osPageBytes]} {
		if err := os.WriteFile(path, damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, _, err := openSkeleton(testContext, dir, [32]byte{}, [32]byte{}); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// Where code cannot be mapped it is copied.
func TestShowFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "code")
	if err := os.WriteFile(path, []byte(strings.Repeat("code", 2048)), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	mem := make([]byte, 4100)
	if err := showFile(mem[1:], f); err != nil || string(mem[:5]) != "\x00code" {
		t.Errorf("%q, %v", mem[:5], err)
	}
	if err := showFile(make([]byte, 9000), f); err == nil {
		t.Error("a file that is too short is enough")
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
	plain := testEngine(t)
	entry, err := s.tunedEntry(testContext, dir, engineBytes(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, entryName), entry.withoutCode(), 0o600); err != nil {
		t.Fatal(err)
	}
	other, _, err := openSkeleton(testContext, dir, [32]byte{}, plain.digest)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Close(testContext) }()
	if err := alike(plain, other, preparedImage(t, dir)); !errors.Is(err, errNotAlike) {
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
			if m.Code != "" || m.Plain == "" || m.Files[skeletonName]+m.Files[codeName]+m.Files[entryName] != "" {
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
			if err := alike(testEngine(t), e, preparedImage(t, p.Dir)); err != nil {
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

func FuzzEntry(f *testing.F) {
	f.Add([]byte("WAZEVO\x03abc\x01\x00\x00\x0000000000\x04\x00\x00\x00\x00\x00\x00\x00code and more"), true)
	f.Add([]byte("WAZEVO\x00\xff\xff\xff\xff00000000"), false)
	f.Fuzz(func(t *testing.T, b []byte, withCode bool) {
		e, err := parseEntry(b, withCode)
		if err != nil {
			return
		}
		if again, err := parseEntry(e.withoutCode(), false); err != nil || again.size != e.size || string(again.rest) != string(e.rest) {
			t.Errorf("%+v, %v", again, err)
		}
	})
}
