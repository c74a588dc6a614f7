// Command worker is what the tests of package jail lock in: it builds its jail,
// says what stands, waits to be looked at, and then does what it is told.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"syscall"

	"github.com/cellblock-dev/cellblock/jail"
)

// order is what the test asks for, as JSON in the first argument.
type order struct {
	Waive     []jail.Wall
	Keep      []int
	DataBytes uint64
	Break     jail.Wall
	Lie       bool
	Deny      string
	Fail      int
	// Gate waits for a byte before the seal, too.
	Gate bool
	// Open leaves a descriptor open: "directory", "file", "socket".
	Open string
	// Loose leaves a writable and executable mapping behind.
	Loose bool
	// Race makes threads all the time while the jail is sealed.
	Race bool
	// Do is what to do once sealed and released.
	Do []string
	// Target is the pid of a process outside, which must be out of reach.
	Target int
	// Seconds is how long "soak" works.
	Seconds int
}

// report is what the worker answers, one JSON line each time.
type report struct {
	States []jail.State `json:",omitempty"`
	Wall   jail.Wall    `json:",omitempty"`
	Error  string       `json:",omitempty"`
	Result []string     `json:",omitempty"`
}

const socket = 3

func main() {
	var o order
	if err := json.Unmarshal([]byte(os.Args[1]), &o); err != nil {
		say(report{Error: err.Error()})
		os.Exit(1)
	}
	// Encoders are built at first use; that must not be after the seal.
	warm, _ := json.Marshal(report{States: []jail.State{{}}, Result: []string{""}})
	_ = warm
	e := jail.Entry{Policy: jail.Policy{Waive: o.Waive}, Keep: append(o.Keep, socket), DataBytes: o.DataBytes}
	e.TestBreak, e.TestLie, e.TestDeny, e.TestFail = o.Break, o.Lie, o.Deny, o.Fail
	p, err := jail.Prepare(e)
	if err != nil {
		fail(err)
	}
	beforeSeal(o)
	if o.Gate {
		say(report{})
		await()
	}
	if o.Race {
		startRace()
	}
	states, err := p.Seal()
	if err != nil {
		fail(err)
	}
	sealed.Store(true)
	say(report{States: states})
	await()
	var results []string
	for _, name := range o.Do {
		results = append(results, name+": "+do(name, o))
	}
	say(report{Result: results})
}

// beforeSeal leaves behind what a careless worker would.
func beforeSeal(o order) {
	switch o.Open {
	case "directory":
		_, _ = syscall.Open("/", syscall.O_RDONLY|syscall.O_DIRECTORY, 0)
	case "socket": // belongs to the namespace that the worker was born in
		if fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM, 0); err == nil {
			_ = syscall.Dup3(fd, freshSocket, 0)
			_ = syscall.Close(fd)
		}
	case "file":
		_, _ = syscall.Open("/proc/self/status", syscall.O_RDONLY, 0)
	}
	if o.Loose {
		_, _ = syscall.Mmap(-1, 0, 4096, syscall.PROT_READ|syscall.PROT_WRITE|syscall.PROT_EXEC, syscall.MAP_PRIVATE|syscall.MAP_ANON)
	}
}

func fail(err error) {
	r := report{Error: err.Error()}
	if w, ok := err.(*jail.WallError); ok { //nolint:errorlint // never wrapped here
		r.Wall = w.Wall
	}
	say(r)
	os.Exit(1)
}

// say writes with write(2) alone, as a sealed worker must.
func say(r report) {
	b, err := json.Marshal(r)
	if err != nil {
		panic(err)
	}
	b = append(b, '\n')
	for len(b) > 0 {
		n, err := syscall.Write(socket, b)
		if err != nil {
			fmt.Fprintln(os.Stderr, "worker: writing:", err)
			os.Exit(1)
		}
		b = b[n:]
	}
}

// await reads one byte and ends the process at end of file.
func await() {
	var b [1]byte
	for {
		n, err := syscall.Read(socket, b[:])
		if err == syscall.EINTR { //nolint:errorlint // raw
			continue
		}
		if n != 1 {
			os.Exit(0)
		}
		return
	}
}
