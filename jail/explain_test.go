package jail

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// fakeHost writes files as a host would have them.
func fakeHost(t *testing.T, uid int, files map[string]string) host {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	h := readHost(root)
	h.uid = uid
	return h
}

// TestWriteExecDenied looks at what this process may do, and at the words for
// one that may not.
func TestWriteExecDenied(t *testing.T) {
	if writeExecDenied() {
		t.Error("the tests' own engine could not run here")
	}
	if r := explain(host{noWriteExec: true}, "", errors.New("mmap")); !strings.Contains(r.Do, "MemoryDenyWriteExecute") {
		t.Errorf("%+v", r)
	}
	if r := explain(host{}, "", errors.New("odd")); r != (Remedy{}) {
		t.Errorf("nothing known: %+v", r)
	}
}

// TestExplain recognises the usual hosts.
func TestExplain(t *testing.T) {
	const filtered = "Name:\tx\nSeccomp:\t2\nSeccomp_filters:\t1\n"
	for _, tc := range []struct {
		name       string
		uid        int
		files      map[string]string
		wall       Wall
		err        error
		reason, do string // parts
	}{
		{
			"Ubuntu 24.04", 1000,
			map[string]string{"proc/sys/kernel/apparmor_restrict_unprivileged_userns": "1\n"},
			Namespaces, syscall.EPERM, "AppArmor", "userns,",
		},
		{
			"Ubuntu 24.04, at the mount", 1000,
			map[string]string{"proc/sys/kernel/apparmor_restrict_unprivileged_userns": "1\n"},
			EmptyRoot, syscall.EACCES, "AppArmor", "userns,",
		},
		{
			"Ubuntu as root", 0,
			map[string]string{"proc/sys/kernel/apparmor_restrict_unprivileged_userns": "1\n", "proc/sys/user/max_user_namespaces": "0"},
			Namespaces, syscall.ENOSPC, "user.max_user_namespaces=0", "sysctl user.max_user_namespaces",
		},
		{
			"old Debian", 1000,
			map[string]string{"proc/sys/kernel/unprivileged_userns_clone": "0\n"},
			Namespaces, syscall.EPERM, "unprivileged_userns_clone=0", "sysctl kernel.unprivileged_userns_clone=1",
		},
		{
			"RHEL", 1000,
			map[string]string{"proc/sys/user/max_user_namespaces": "0\n"},
			Namespaces, syscall.ENOSPC, "max_user_namespaces=0", "sysctl",
		},
		{
			"limit reached", 1000,
			map[string]string{"proc/sys/user/max_user_namespaces": "10\n"},
			Namespaces, syscall.ENOSPC, "limit", "now user: 10",
		},
		{
			"Docker", 0,
			map[string]string{".dockerenv": "", "proc/self/status": filtered},
			Namespaces, syscall.EPERM, "docker container's system call filter", "seccomp=unconfined",
		},
		{
			"Docker, at the mount", 0,
			map[string]string{".dockerenv": ""},
			EmptyRoot, syscall.EACCES, "docker", "apparmor=unconfined",
		},
		{
			"Podman", 0,
			map[string]string{"run/.containerenv": "", "proc/self/status": filtered},
			Namespaces, syscall.EPERM, "podman", "unmask=ALL",
		},
		{
			"Kubernetes", 0,
			map[string]string{"var/run/secrets/kubernetes.io/x": "", "proc/self/status": filtered},
			Namespaces, syscall.EPERM, "kubernetes", "hostUsers: false",
		},
		{
			"LXC", 0,
			map[string]string{"proc/self/cgroup": "0::/lxc/box\n"},
			Namespaces, syscall.EPERM, "lxc", "security.nesting",
		},
		{
			"masked /proc", 0,
			map[string]string{".dockerenv": "", "proc/self/mounts": "proc /proc/sys proc ro,nosuid 0 0\n"},
			Ucounts, syscall.EROFS, "/proc/sys is mounted read-only", "systempaths=unconfined",
		},
		{
			"read-only cgroups", 0,
			map[string]string{".dockerenv": "", "proc/self/mounts": "cgroup /sys/fs/cgroup cgroup2 ro,nosuid 0 0\n"},
			Cgroup, syscall.EROFS, "read-only", "cgroupns=private",
		},
		{
			"no delegation", 1000, nil,
			Cgroup, syscall.EACCES, "ordinary user", "systemd-run --user --scope -p Delegate=yes",
		},
		{
			"cpu not delegated", 1000, nil,
			CPU, nil, "cpu controller", "Delegate=cpu",
		},
		{
			"WSL2", 1000,
			map[string]string{"proc/sys/kernel/osrelease": "5.10.16.3-microsoft-standard-WSL2\n"},
			Landlock, syscall.ENOSYS, "WSL2", "wsl --update",
		},
		{
			"WSL2 without systemd", 1000,
			map[string]string{"proc/sys/kernel/osrelease": "6.6.87.2-microsoft-standard-WSL2\n"},
			Cgroup, syscall.EACCES, "WSL2", "systemd=true",
		},
		{
			"Landlock off at boot", 0, nil,
			Landlock, syscall.EOPNOTSUPP, "off at boot", "lsm=",
		},
		{
			"old kernel", 0,
			map[string]string{"proc/sys/kernel/osrelease": "5.4.0\n"},
			Landlock, syscall.ENOSYS, "5.4.0 has no Landlock", "5.13",
		},
		{
			"gVisor", 0,
			map[string]string{"proc/version": "Linux version 4.4.0 gVisor\n"},
			Landlock, syscall.ENOSYS, "gVisor", "waive",
		},
		{
			"kernel without MDWE", 0,
			map[string]string{"proc/sys/kernel/osrelease": "6.1.0\n"},
			MDWE, syscall.EINVAL, "6.1.0", "6.3",
		},
		{
			"too many keys", 1000, nil,
			Keyring, syscall.EDQUOT, "as many keys", "maxkeys",
		},
		{
			"keys filtered", 0,
			map[string]string{".dockerenv": "", "proc/self/status": filtered},
			Keyring, syscall.EPERM, "forbids keys", "seccomp=unconfined",
		},
		{
			"no filters", 0,
			map[string]string{"proc/sys/kernel/osrelease": "4.9.0\n"},
			Seccomp, syscall.EINVAL, "4.9.0", "4.14",
		},
		{
			"hidepid", 1000,
			map[string]string{"proc/self/mounts": "proc /proc proc rw,nosuid,hidepid=invisible 0 0\n"},
			Seccomp, errHidden, "hidepid=invisible", "remount,hidepid=0",
		},
		{
			"memfd noexec", 0,
			map[string]string{"proc/sys/vm/memfd_noexec": "2\n"},
			"", nil, "vm.memfd_noexec=2", "sysctl",
		},
		{
			"no /proc", 0, nil,
			Descriptors, syscall.ENOENT, "/proc is not mounted", "mount -t proc",
		},
		{
			"one user only", 1000, nil,
			SlotUID, nil, "ordinary user", "as root",
		},
		{
			"unknown", 0, nil,
			Landlock, errors.New("odd"), "", "5.13",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := fakeHost(t, tc.uid, tc.files)
			r := explain(h, tc.wall, fmt.Errorf("wrapped: %w", tc.err))
			// The same from a worker, as text.
			if tc.err != nil && tc.err != errHidden { //nolint:errorlint // the supervisor's own, which does not cross
				if got := explain(h, tc.wall, errors.New("wrapped: "+tc.err.Error())); got != r {
					t.Errorf("as text: %+v", got)
				}
			}
			if !strings.Contains(r.Reason, tc.reason) || tc.reason == "" && r.Reason != "" || !strings.Contains(r.Do, tc.do) {
				t.Errorf("%+v, want %q and %q", r, tc.reason, tc.do)
			}
		})
	}
}
