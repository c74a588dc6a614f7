package spawn

import (
	"encoding/binary"
	"fmt"
	"math"
	"syscall"

	"github.com/cellblock-dev/cellblock/jail"
)

// The conversation. Each message is one packet of a SOCK_SEQPACKET socket, and
// carries as many descriptors as it says, no more and no less.
//
//	supervisor                                   spawner
//	    | <---------------------------------- hello |  once
//	    |                                           |
//	    | spawn{id} + program, files, groups -----> |  any number at a time
//	    | <------- spawned{id, pid} + pidfd, stderr |  exactly one of the two
//	    | <------- failed{id, wall, doing, errno}   |  for each spawn, in order
//	    | <------- exited{id, status, usage}        |  once for each spawned
//	    |                                           |
//	    | end of file ----------------------------> |  kills and reaps everything,
//	    | <-------------------------------- exited  |  reports it,
//	    | <---------------------------- end of file |  and ends
//
// Every packet starts with the version, the kind and the id:
//
//	version u8 | kind u8 | id u64 | fields of the kind
//
// Numbers are big-endian. A string is its length as u32 and its bytes; a list
// is its length as u32 and its strings.

// version is the version of the conversation; both ends must have the same.
const version = 1

// maxPacket bounds a packet.
const maxPacket = MaxRequestBytes

// maxDescriptors bounds the descriptors of a packet: program, stdin, stdout,
// group, tasks and files.
const maxDescriptors = 4 + MaxTasks + MaxFiles

type kind uint8

const (
	kindHello kind = iota + 1
	kindSpawn
	kindSpawned
	kindFailed
	kindExited
)

// spawn asks for a process. Its descriptors come in the order of the fields.
type spawn struct {
	id                             uint64
	program, stdin, stdout, cgroup bool
	tasks, files                   int
	path, dir                      string
	argv, env                      []string
	jail                           *jail.Attr
}

// descriptors is the number of descriptors that come with the message.
func (m *spawn) descriptors() int {
	n := m.tasks + m.files
	for _, given := range []bool{m.program, m.stdin, m.stdout, m.cgroup} {
		if given {
			n++
		}
	}
	return n
}

// reply is any message of the spawner.
type reply struct {
	kind kind
	id   uint64

	pid int // spawned

	wall  jail.Wall // failed
	doing string
	errno syscall.Errno

	status syscall.WaitStatus // exited
	rusage syscall.Rusage
}

// spawnedDescriptors is the number that comes with spawned: pidfd and stderr.
const spawnedDescriptors = 2

func (m *reply) descriptors() int {
	if m.kind == kindSpawned {
		return spawnedDescriptors
	}
	return 0
}

// The flags of a spawn message.
const (
	flagProgram = 1 << iota
	flagStdin
	flagStdout
	flagCgroup
	flagJail
	flagsAll = 1<<iota - 1
)

func head(k kind, id uint64) []byte {
	return binary.BigEndian.AppendUint64([]byte{version, byte(k)}, id)
}

func flag(set bool, f byte) byte {
	if set {
		return f
	}
	return 0
}

func (m *spawn) encode() []byte {
	flags := flag(m.program, flagProgram) | flag(m.stdin, flagStdin) | flag(m.stdout, flagStdout) |
		flag(m.cgroup, flagCgroup) | flag(m.jail != nil, flagJail)
	b := append(head(kindSpawn, m.id), flags, byte(m.tasks), byte(m.files)) //nolint:gosec // Request.check bounds both
	b = appendString(b, m.path)
	b = appendString(b, m.dir)
	b = appendList(b, m.argv)
	b = appendList(b, m.env)
	if m.jail != nil {
		b = binary.BigEndian.AppendUint32(b, m.jail.HostUID)
		b = binary.BigEndian.AppendUint32(b, m.jail.HostGID)
		b = appendList(b, m.jail.Waive)
	}
	return b
}

func decodeSpawn(b []byte) (*spawn, error) {
	d := &decoder{b: b}
	k, id := d.head()
	m := &spawn{id: id}
	flags := d.u8()
	m.program, m.stdin, m.stdout = flags&flagProgram != 0, flags&flagStdin != 0, flags&flagStdout != 0
	m.cgroup = flags&flagCgroup != 0
	m.tasks, m.files = int(d.u8()), int(d.u8())
	m.path, m.dir = d.string(), d.string()
	m.argv, m.env = list[string](d), list[string](d)
	if flags&flagJail != 0 {
		m.jail = &jail.Attr{HostUID: d.u32(), HostGID: d.u32(), Waive: list[jail.Wall](d)}
	}
	if k != kindSpawn || flags > flagsAll || m.tasks > MaxTasks || m.files > MaxFiles {
		d.bad = true
	}
	return m, d.end("spawn")
}

// usage lists the fields of a Rusage that cross, in their order.
func usage(r *syscall.Rusage) []*int64 {
	return []*int64{
		&r.Utime.Sec, &r.Utime.Usec, &r.Stime.Sec, &r.Stime.Usec, &r.Maxrss,
		&r.Minflt, &r.Majflt, &r.Inblock, &r.Oublock, &r.Nvcsw, &r.Nivcsw,
	}
}

func (m *reply) encode() []byte {
	b := head(m.kind, m.id)
	switch m.kind {
	case kindSpawned:
		b = binary.BigEndian.AppendUint32(b, uint32(m.pid)) //nolint:gosec // a pid of the kernel is positive and below 2^22
	case kindFailed:
		b = appendString(b, string(m.wall))
		b = appendString(b, m.doing)
		b = binary.BigEndian.AppendUint32(b, uint32(m.errno)) //nolint:gosec // an errno is below 4096
	case kindHello, kindSpawn: // no fields; not a reply
	case kindExited:
		b = binary.BigEndian.AppendUint32(b, uint32(m.status))
		for _, v := range usage(&m.rusage) {
			b = binary.BigEndian.AppendUint64(b, uint64(*v)) //nolint:gosec // the same bits come back
		}
	}
	return b
}

func decodeReply(b []byte) (*reply, error) {
	d := &decoder{b: b}
	k, id := d.head()
	m := &reply{kind: k, id: id}
	switch k {
	case kindHello:
	case kindSpawned:
		m.pid = int(d.u32())
		if m.pid <= 1 || m.pid > math.MaxInt32 {
			d.bad = true
		}
	case kindFailed:
		m.wall, m.doing = jail.Wall(d.string()), d.string()
		m.errno = syscall.Errno(d.u32())
	case kindExited:
		m.status = syscall.WaitStatus(d.u32())
		for _, v := range usage(&m.rusage) {
			*v = int64(d.u64()) //nolint:gosec // the bits that were sent
		}
	case kindSpawn:
		d.bad = true // not a reply
	default:
		d.bad = true
	}
	return m, d.end("reply")
}

func appendString[S ~string](b []byte, s S) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(len(s))) //nolint:gosec // Request.check bounds the whole message
	return append(b, s...)
}

func appendList[S ~string](b []byte, list []S) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(len(list))) //nolint:gosec // Request.check bounds the whole message
	for _, s := range list {
		b = appendString(b, s)
	}
	return b
}

// decoder reads fields from the front of b. After the first thing that does
// not fit, bad is set and all further fields are zero.
type decoder struct {
	b       []byte
	bad     bool
	version uint8 // of the peer
}

func (d *decoder) head() (kind, uint64) {
	d.version = d.u8()
	return kind(d.u8()), d.u64()
}

func (d *decoder) take(n int) []byte {
	if d.bad || n > len(d.b) {
		d.bad = true
		return nil
	}
	field := d.b[:n]
	d.b = d.b[n:]
	return field
}

func (d *decoder) u8() uint8 {
	if f := d.take(1); f != nil {
		return f[0]
	}
	return 0
}

func (d *decoder) u32() uint32 {
	if f := d.take(4); f != nil {
		return binary.BigEndian.Uint32(f)
	}
	return 0
}

func (d *decoder) u64() uint64 {
	if f := d.take(8); f != nil {
		return binary.BigEndian.Uint64(f)
	}
	return 0
}

func (d *decoder) string() string { return string(d.take(int(d.u32()))) }

// list reads a list; an empty one is nil. Each string takes at least its
// length field, so the packet itself bounds what is allocated.
func list[S ~string](d *decoder) []S {
	n := int(d.u32())
	if n > len(d.b)/4 {
		d.bad = true
	}
	if d.bad || n == 0 {
		return nil
	}
	l := make([]S, n)
	for i := range l {
		l[i] = S(d.string())
	}
	return l
}

// end checks that all was well and nothing is left over.
func (d *decoder) end(what string) error {
	if d.version != version {
		return fmt.Errorf("decode %s: version %d, this side has %d: %w", what, d.version, version, errProtocol)
	}
	if d.bad || len(d.b) != 0 {
		return fmt.Errorf("decode %s: %w", what, errProtocol)
	}
	return nil
}
