package jail

import (
	"os"
	"syscall"
)

// namespaceFlags are the namespaces a worker is born into. The time namespace
// is left out: it would only shift clocks.
const namespaceFlags = syscall.CLONE_NEWUSER | syscall.CLONE_NEWPID | syscall.CLONE_NEWNET |
	syscall.CLONE_NEWIPC | syscall.CLONE_NEWUTS | syscall.CLONE_NEWNS | syscall.CLONE_NEWCGROUP

// The capabilities a worker holds inside its own user namespace until it
// seals: for mounts and host name, for securebits, and for the namespace
// limits.
const (
	capSetpcap     = 8
	capSysAdmin    = 21
	capSysResource = 24
)

// SysProcAttr says how the parent must fork a worker: in a session of its own,
// inside new namespaces, as the one id of its user namespace. The caller adds
// what belongs to the fork alone (cgroup, pidfd, Pdeathsig).
//
// Capabilities are given only together with a user namespace. Without one
// (waived) the worker is simply HostUID.
func SysProcAttr(a Attr) *syscall.SysProcAttr {
	s := &syscall.SysProcAttr{Setsid: true}
	root := os.Geteuid() == 0
	if (Policy{Waive: a.Waive}).Waived(Namespaces) {
		if root {
			s.Credential = &syscall.Credential{Uid: a.HostUID, Gid: a.HostGID}
		}
		return s
	}
	s.Cloneflags = namespaceFlags
	s.UidMappings = []syscall.SysProcIDMap{{ContainerID: InsideID, HostID: int(a.HostUID), Size: 1}}
	s.GidMappings = []syscall.SysProcIDMap{{ContainerID: InsideID, HostID: int(a.HostGID), Size: 1}}
	s.AmbientCaps = []uintptr{capSysAdmin, capSetpcap, capSysResource}
	if root {
		// Born as the parent's uid, which the map does not have: step onto
		// the mapped one and shed the supplementary groups. An ordinary
		// user is the mapped id already, and may do neither.
		s.GidMappingsEnableSetgroups = true
		s.Credential = &syscall.Credential{Uid: InsideID, Gid: InsideID}
	}
	return s
}
