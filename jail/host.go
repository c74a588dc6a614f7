package jail

import (
	"os"
	"path/filepath"
	"strings"
)

// host is what can be read about the machine without rights: hints for texts,
// never a basis for a decision.
type host struct {
	uid             int
	kernel          string
	wsl, gvisor     bool
	container       string // "docker", "podman", "kubernetes", "lxc", "" for none
	filtered        bool   // a system call filter is on us already
	apparmorUserns  bool   // AppArmor restricts user namespaces of users
	usernsClone     string // Debian's sysctl, "" where there is none
	maxUserns       string
	procSysReadOnly bool
	cgroupReadOnly  bool
	hidepid         string // the option of /proc's mount that hides processes
	memfdNoexec     bool   // files in memory are refused unless asked for in the newest way
	noWriteExec     bool   // we may not have memory that is writable and executable
}

// readHost reads the facts below root, which is "/" but in tests.
func readHost(root string) host {
	read := func(path string) string {
		b, err := os.ReadFile(filepath.Join(root, path)) //nolint:gosec // fixed paths
		if err != nil {
			return ""
		}
		return strings.TrimSpace(string(b))
	}
	exists := func(path string) bool {
		_, err := os.Stat(filepath.Join(root, path))
		return err == nil
	}
	h := host{
		uid:            os.Geteuid(),
		kernel:         read("proc/sys/kernel/osrelease"),
		apparmorUserns: read("proc/sys/kernel/apparmor_restrict_unprivileged_userns") == "1",
		usernsClone:    read("proc/sys/kernel/unprivileged_userns_clone"),
		maxUserns:      read("proc/sys/user/max_user_namespaces"),
		memfdNoexec:    read("proc/sys/vm/memfd_noexec") == "2",
		noWriteExec:    root == "/" && writeExecDenied(),
	}
	h.wsl = strings.Contains(strings.ToLower(h.kernel), "microsoft")
	h.gvisor = strings.Contains(read("proc/version"), "gVisor") || h.kernel == "4.4.0" && exists("proc/sentry-meminfo")
	switch {
	case exists("var/run/secrets/kubernetes.io"):
		h.container = "kubernetes"
	case exists(".dockerenv"):
		h.container = "docker"
	case exists("run/.containerenv"):
		h.container = "podman"
	case strings.Contains(read("proc/self/cgroup"), "/lxc"):
		h.container = "lxc"
	}
	for line := range strings.Lines(read("proc/self/status")) {
		if v, ok := strings.CutPrefix(line, "Seccomp:"); ok {
			h.filtered = strings.TrimSpace(v) == "2"
		}
	}
	for line := range strings.Lines(read("proc/self/mounts")) {
		f := strings.Fields(line) // device, place, type, options
		if len(f) < 4 {
			continue
		}
		if f[1] == "/proc" {
			h.hidepid = hidingOption(f[3])
		}
		if !strings.HasPrefix(f[3]+",", "ro,") {
			continue
		}
		h.procSysReadOnly = h.procSysReadOnly || f[1] == "/proc/sys"
		h.cgroupReadOnly = h.cgroupReadOnly || strings.HasPrefix(f[2], "cgroup")
	}
	return h
}

// hidingOption is the option among those of /proc's mount that hides processes
// from other users, "" for none.
func hidingOption(options string) string {
	for o := range strings.SplitSeq(options, ",") {
		if v, ok := strings.CutPrefix(o, "hidepid="); ok && v != "0" && v != "off" {
			return o
		}
	}
	return ""
}

// containerRemedy is how to let a container make jails.
func (h host) containerRemedy() string {
	switch h.container {
	case "docker":
		return "docker run --security-opt seccomp=unconfined --security-opt apparmor=unconfined --security-opt systempaths=unconfined ..., or waive the walls and give the container limits of its own"
	case "podman":
		return "podman run --security-opt seccomp=unconfined --security-opt unmask=ALL ..., or waive the walls and give the container limits of its own"
	case "kubernetes":
		return "set hostUsers: false, procMount: Unmasked and seccompProfile: Unconfined in the pod's securityContext, or waive the walls and give the pod limits of its own"
	case "lxc":
		return "set security.nesting=true for the container"
	}
	return "allow namespaces, mount and pivot_root in the container's profile"
}
