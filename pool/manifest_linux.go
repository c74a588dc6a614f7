package pool

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// manifestVersion is the version of the layout of an artifacts folder.
const manifestVersion = 1

// The bounds of what is read of a folder.
const (
	maxManifestBytes = 1 << 20
	maxManifestFiles = 1024
	maxArtifactBytes = 256 << 20 // of one file; the compile cache has 3 MB
)

// The files that every artifacts folder has.
const (
	manifestFile = "manifest.json"
	engineFile   = "engine.wasm"
	imageFile    = "base.img"
)

// digest is a SHA-256 sum, in hexadecimal in JSON.
type digest [32]byte

// UnmarshalText reads the sum.
func (d *digest) UnmarshalText(b []byte) error {
	if hex.DecodedLen(len(b)) != len(d) {
		return errors.New("sum has the wrong length")
	}
	_, err := hex.Decode(d[:], b)
	return err
}

// manifest says what a folder was made from and what is in it.
type manifest struct {
	Version      int               `json:"version"`
	Engine       digest            `json:"engine"`
	Base         digest            `json:"base"`
	Wazero       string            `json:"wazero"`
	Worker       digest            `json:"worker"`
	StackPointer uint32            `json:"stackPointer"`
	Files        map[string]digest `json:"files"`
	Plain        string            `json:"plain"` // why workers load the engine itself
}

// load opens an artifacts folder and checks all of it. An error that wraps
// fs.ErrNotExist says that there is none.
func (s *storage) load(path string) (_ *Artifacts, err error) {
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = root.Close() }() // read only
	dir, err := root.Open(".")
	if err != nil {
		return nil, err
	}
	a := &Artifacts{Path: path, dir: dir}
	defer func() {
		if err != nil {
			_ = dir.Close()
			if a.image != nil {
				_ = a.image.Close()
			}
		}
	}()
	if err := oursAlone(dir); err != nil {
		return nil, err
	}
	m, err := readManifest(root)
	if err != nil {
		return nil, err
	}
	if err := s.fits(m); err != nil {
		return nil, err
	}
	for name, want := range m.Files {
		if name == imageFile {
			continue
		}
		if err := checkFile(root, name, want, io.Discard); err != nil {
			return nil, err
		}
	}
	if a.image, err = sealedImage(root, m.Base); err != nil {
		return nil, err
	}
	a.Engine, a.Base = m.Engine, m.Base
	if m.Plain != "" && !s.cfg.Plain {
		s.cfg.Logger.Warn("workers load the plain engine, and start and run slower", "reason", m.Plain)
	}
	// Both are for prune, and it does no harm if they cannot be done.
	_ = unix.Flock(int(dir.Fd()), unix.LOCK_SH|unix.LOCK_NB)
	_ = root.Chtimes(".", time.Now(), time.Now())
	return a, nil
}

// fits says whether a folder is for this worker and engine. The worker's sum
// stands for its version of wazero too, which is part of the binary.
func (s *storage) fits(m *manifest) error {
	switch {
	case m.Version != manifestVersion:
		return fmt.Errorf("manifest has version %d, not %d", m.Version, manifestVersion)
	case m.Worker != s.worker:
		return errors.New("manifest is of another worker binary")
	case s.engine != [32]byte{} && m.Engine != s.engine:
		return errors.New("manifest is of another engine")
	case m.Wazero == "":
		return errors.New("manifest names no wazero version")
	case m.Files[engineFile] != m.Engine || m.Files[imageFile] != m.Base:
		return errors.New("manifest contradicts itself")
	case len(m.Files) > maxManifestFiles:
		return fmt.Errorf("manifest has %d files", len(m.Files))
	}
	return nil
}

func readManifest(root *os.Root) (*manifest, error) {
	f, err := root.Open(manifestFile)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // read only
	if err := oursAlone(f); err != nil {
		return nil, err
	}
	b, err := io.ReadAll(io.LimitReader(f, maxManifestBytes+1))
	if err != nil {
		return nil, fmt.Errorf("read manifest: %w", err)
	}
	if len(b) > maxManifestBytes {
		return nil, errors.New("manifest is too large")
	}
	var m manifest
	if err := json.Unmarshal(b, &m); err != nil {
		return nil, fmt.Errorf("read manifest: %w", err)
	}
	return &m, nil
}

// checkFile compares a file with its sum while it is copied to w.
func checkFile(root *os.Root, name string, want digest, w io.Writer) error {
	if !filepath.IsLocal(name) {
		return fmt.Errorf("manifest names %q, outside of its folder", name)
	}
	f, err := root.Open(name)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // read only
	if err := oursAlone(f); err != nil {
		return err
	}
	h := sha256.New()
	n, err := io.Copy(io.MultiWriter(h, w), io.LimitReader(f, maxArtifactBytes+1))
	if err != nil {
		return fmt.Errorf("read %s: %w", f.Name(), err)
	}
	if n > maxArtifactBytes {
		return fmt.Errorf("%s is too large", f.Name())
	}
	if digest(h.Sum(nil)) != want {
		return fmt.Errorf("%s does not have the sum that the manifest gives", f.Name())
	}
	return nil
}

// oursAlone checks that nobody else can write a file or folder: what is in it
// is executed.
func oursAlone(f *os.File) error {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return fmt.Errorf("look at %s: %w", f.Name(), err)
	}
	kind := st.Mode & unix.S_IFMT
	if kind != unix.S_IFREG && kind != unix.S_IFDIR {
		return fmt.Errorf("%s is neither a file nor a folder", f.Name())
	}
	if int(st.Uid) != os.Geteuid() || st.Mode&0o022 != 0 {
		return fmt.Errorf("%s belongs to uid %d with mode %o: others can write it", f.Name(), st.Uid, st.Mode&0o7777)
	}
	return nil
}

// sealedImage copies the base image, checked, into memory that nobody can
// change, and opens it for reading.
func sealedImage(root *os.Root, want digest) (*os.File, error) {
	const name, flags = "cellblock base image", unix.MFD_CLOEXEC | unix.MFD_ALLOW_SEALING
	// Some hosts refuse one that could be executed; kernels before 6.3 do not
	// know the flag.
	fd, err := unix.MemfdCreate(name, flags|unix.MFD_NOEXEC_SEAL)
	if errors.Is(err, unix.EINVAL) {
		fd, err = unix.MemfdCreate(name, flags)
	}
	if err != nil {
		return nil, fmt.Errorf("make base image: %w", err)
	}
	w := os.NewFile(uintptr(fd), imageFile)
	defer func() { _ = w.Close() }() // the reading end has its own
	if err := checkFile(root, imageFile, want, w); err != nil {
		return nil, err
	}
	seals := unix.F_SEAL_SEAL | unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_WRITE
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals); err != nil {
		return nil, fmt.Errorf("seal base image: %w", err)
	}
	r, err := os.Open(fmt.Sprintf("/proc/self/fd/%d", fd))
	if err != nil {
		return nil, fmt.Errorf("open base image: %w", err)
	}
	return r, nil
}

// sumFile is the sum of a whole file, whose offset is left alone.
func sumFile(f *os.File) (sum [32]byte, err error) {
	info, err := f.Stat()
	if err != nil {
		return sum, err
	}
	h := sha256.New()
	if _, err := io.Copy(h, io.NewSectionReader(f, 0, info.Size())); err != nil {
		return sum, err
	}
	return [32]byte(h.Sum(nil)), nil
}
