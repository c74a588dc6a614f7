package main

import (
	"fmt"
	"runtime"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// sealed is set when Seal has returned.
var sealed atomic.Bool

// Counts of the racing threads.
var before, refused, escaped atomic.Int64

// startRace keeps making threads that die again, each of which tries to look
// at the root all its life: what starts before the seal and looks after it must
// be refused too.
func startRace() {
	for range 3 {
		go func() {
			for {
				done := make(chan struct{})
				go func() {
					runtime.LockOSThread() // dies with its thread
					defer close(done)
					for range 20 {
						look()
						runtime.Gosched()
					}
				}()
				<-done
			}
		}()
	}
	for before.Load() == 0 {
		runtime.Gosched()
	}
}

func look() {
	was := sealed.Load()
	_, _, e := syscall.RawSyscall6(unix.SYS_GETPPID, 0, 0, 0, 0, 0, 0)
	switch {
	case !was:
		before.Add(1)
	case e == unix.ENOSYS:
		refused.Add(1)
	default:
		escaped.Add(1)
	}
}

// raced waits until threads were refused and says how it went.
func raced() string {
	time.Sleep(100 * time.Millisecond)
	switch {
	case escaped.Load() > 0:
		return fmt.Sprintf("%d of %d calls escaped", escaped.Load(), refused.Load())
	case before.Load() == 0 || refused.Load() == 0:
		return "no race"
	}
	return "ok"
}
