package jail

import (
	"errors"
	"strings"
	"syscall"
)

// Remedy is what stands in the way of a wall on this host, and what would help.
type Remedy struct {
	// Reason is what was recognised about the host; "" when nothing was.
	Reason string
	// Do is the command or line that would help.
	Do string
}

func (r Remedy) String() string {
	if r.Reason == "" {
		return r.Do
	}
	return r.Reason + ": " + r.Do
}

// Explain says why the wall cannot be raised on this host, as far as err and
// the host's files tell, and what would help. It is meant for the supervisor:
// a worker sees no files.
//
// With no wall it says what of this host stands in the way of any worker,
// jailed or not, such as a service manager that forbids executable memory.
func Explain(w Wall, err error) Remedy { return explain(readHost("/"), w, err) }

func explain(h host, w Wall, err error) Remedy {
	var r Remedy
	switch w {
	case Namespaces:
		r = explainNamespaces(h, err)
	case EmptyRoot:
		r = explainMounts(h, err)
	case Landlock:
		r = explainLandlock(h, err)
	case Cgroup, CPU:
		r = explainCgroup(h, w)
	case Ucounts:
		if h.procSysReadOnly {
			r = Remedy{"/proc/sys is mounted read-only, as containers do", h.containerRemedy()}
		}
	case Keyring:
		r = explainKeyring(h, err)
	case MDWE:
		if caused(err, syscall.EINVAL) {
			r = Remedy{"kernel " + h.kernel + " has no memory-deny-write-execute", "boot a kernel of 6.3 or later"}
		}
	case SlotUID:
		if h.uid != 0 {
			r = Remedy{"the supervisor is an ordinary user and has no other user id to give", "run the supervisor as root"}
		}
	case Descriptors:
		if caused(err, syscall.ENOENT) {
			r = Remedy{"/proc is not mounted", "mount -t proc proc /proc"}
		}
	case Seccomp:
		r = explainSeccomp(h, err)
	case "":
		return explainAny(h)
	default:
	}
	if r.Do == "" {
		i, _ := lookup(w)
		r.Do = i.remedy
	}
	return r
}

func explainNamespaces(h host, err error) Remedy {
	const asRoot = ", or run the supervisor as a root service"
	switch {
	case h.container != "" && h.filtered:
		return Remedy{"the " + h.container + " container's system call filter forbids new namespaces", h.containerRemedy()}
	case h.uid != 0 && h.apparmorUserns:
		return Remedy{
			"AppArmor restricts user namespaces of ordinary users (kernel.apparmor_restrict_unprivileged_userns=1)",
			`allow them for the worker alone: echo 'abi <abi/4.0>, include <tunables/global> profile cellblock /usr/local/bin/vmworker flags=(unconfined) { userns, }' | sudo tee /etc/apparmor.d/cellblock && sudo apparmor_parser -r /etc/apparmor.d/cellblock` + asRoot,
		}
	case h.uid != 0 && h.usernsClone == "0":
		return Remedy{"user namespaces are off for ordinary users (kernel.unprivileged_userns_clone=0)", "sudo sysctl kernel.unprivileged_userns_clone=1" + asRoot}
	case h.maxUserns == "0":
		return Remedy{"user namespaces are off (user.max_user_namespaces=0)", "sudo sysctl user.max_user_namespaces=15000"}
	case caused(err, syscall.ENOSPC) || caused(err, syscall.EUSERS):
		return Remedy{"a limit on namespaces is reached", "raise the sysctls user.max_*_namespaces (now user: " + h.maxUserns + ")"}
	case caused(err, syscall.EINVAL):
		return Remedy{"kernel " + h.kernel + " lacks a kind of namespace, or the supervisor runs inside a chroot", "boot a kernel with user, pid, net, ipc, uts and cgroup namespaces"}
	case h.container != "":
		return Remedy{"the supervisor runs in a " + h.container + " container", h.containerRemedy()}
	}
	return Remedy{}
}

func explainMounts(h host, err error) Remedy {
	denied := caused(err, syscall.EACCES) || caused(err, syscall.EPERM)
	switch {
	case h.uid != 0 && h.apparmorUserns && denied:
		return explainNamespaces(host{uid: h.uid, apparmorUserns: true}, err)
	case h.container != "" && denied:
		return Remedy{"the " + h.container + " container's AppArmor or system call profile forbids mounting", h.containerRemedy()}
	}
	return Remedy{}
}

func explainLandlock(h host, err error) Remedy {
	switch {
	case caused(err, syscall.EOPNOTSUPP):
		return Remedy{"Landlock is built into the kernel but off at boot", "add landlock to the lsm= list of the kernel command line, for example lsm=landlock,yama,apparmor,bpf"}
	case caused(err, syscall.ENOSYS) && h.gvisor:
		return Remedy{"gVisor has no Landlock", "run outside gVisor, or waive it: the empty root keeps files away"}
	case caused(err, syscall.ENOSYS) && h.filtered:
		return Remedy{"kernel " + h.kernel + " has no Landlock, or the container's system call filter hides it", h.containerRemedy()}
	case caused(err, syscall.ENOSYS) && h.wsl:
		return Remedy{"this WSL2 kernel (" + h.kernel + ") has no Landlock", "wsl --update"}
	case caused(err, syscall.ENOSYS):
		return Remedy{"kernel " + h.kernel + " has no Landlock", "boot a kernel of 5.13 or later with CONFIG_SECURITY_LANDLOCK"}
	}
	return Remedy{}
}

func explainCgroup(h host, w Wall) Remedy {
	switch {
	case h.cgroupReadOnly && h.container != "":
		return Remedy{"the " + h.container + " container sees its cgroups read-only", "docker run --cgroupns=private with a writable /sys/fs/cgroup (for example --privileged, or podman run --systemd=always)"}
	case h.wsl:
		return Remedy{"WSL2 without systemd delegates no cgroup", "put [boot] systemd=true into /etc/wsl.conf, run wsl --shutdown, then systemd-run --user --scope -p Delegate=yes -- supervisor ..."}
	case h.uid != 0 && w == CPU:
		return Remedy{"systemd does not delegate the cpu controller to users unless told to", "sudo systemctl edit user@.service, add [Service] Delegate=cpu cpuset io memory pids, log in again"}
	case h.uid != 0:
		return Remedy{"an ordinary user owns no cgroup unless it is delegated", "systemd-run --user --scope -p Delegate=yes -- supervisor ..."}
	}
	return Remedy{}
}

func explainKeyring(h host, err error) Remedy {
	switch {
	case caused(err, syscall.EDQUOT):
		return Remedy{"the user has as many keys as it may (kernel.keys.maxkeys)", "sudo sysctl kernel.keys.maxkeys=2000"}
	case caused(err, syscall.EPERM) && h.filtered:
		return Remedy{"the container's system call filter forbids keys", h.containerRemedy()}
	}
	return Remedy{}
}

// explainAny says what keeps any worker from starting.
func explainAny(h host) Remedy {
	switch {
	case h.noWriteExec:
		return Remedy{"memory that is writable and executable is forbidden to us, which the engine needs to load its machine code", "remove MemoryDenyWriteExecute=yes from the systemd unit, or allow execmem to the SELinux domain: workers forbid it themselves once the code is loaded"}
	case h.memfdNoexec:
		return Remedy{"files in memory are restricted (vm.memfd_noexec=2)", "sudo sysctl vm.memfd_noexec=1"}
	}
	return Remedy{}
}

func explainSeccomp(h host, err error) Remedy {
	if h.hidepid != "" && errors.Is(err, errHidden) {
		return Remedy{"/proc is mounted with " + h.hidepid + ", which hides workers from the supervisor", "sudo mount -o remount,hidepid=0 /proc, or mount it with gid= of a group that the supervisor is in, or run the supervisor as root"}
	}
	if err != nil && strings.Contains(err.Error(), errWritableCode.Error()) {
		return Remedy{"the worker was built so that its machine code can be written", "build the worker from a released source, and report this as a bug if that is so"}
	}
	if caused(err, syscall.EINVAL) || caused(err, syscall.ENOSYS) {
		return Remedy{"kernel " + h.kernel + " has no system call filters with KILL_PROCESS", "boot a kernel of 4.14 or later with CONFIG_SECCOMP_FILTER"}
	}
	return Remedy{}
}

// caused reports whether err is, or ends in the text of, the system error: an
// error that came from a worker has crossed as text.
func caused(err error, e syscall.Errno) bool {
	return err != nil && (errors.Is(err, e) || strings.HasSuffix(err.Error(), ": "+e.Error()))
}
