package pool

import (
	"errors"
	"syscall"
	"time"

	"github.com/cellblock-dev/cellblock/internal/spawn"
)

// Kill ends the process, then the conversation: the order matters, as a worker
// that sees its socket close would end by itself and hide how.
func (w *process) Kill() {
	if w.proc != nil {
		if err := w.proc.Kill(); err != nil {
			w.owner.log.Error("worker cannot be killed", "worker", w.id, "error", err)
		}
	}
	w.disconnect()
}

func (w *process) disconnect() {
	if w.conn != nil {
		w.closeConn.Do(func() { _ = w.conn.Close() })
	}
}

// Wait reaps: the exit, the last of stderr, what the group counted; then the
// group, the uid and all descriptors are gone.
func (w *process) Wait() Exit {
	<-w.proc.Exited()
	w.disconnect()
	end := w.proc.Exit()
	x := Exit{Status: end.Status, Known: !end.Lost, OutOfMemory: w.over.Load(), Syscall: -1}
	if x.Known && x.Status.Signaled() && x.Status.Signal() == syscall.SIGSYS {
		x.Syscall = deniedCall(w.proc.PID(), w.begun)
	}
	x.CPU = time.Duration(end.Rusage.Utime.Nano() + end.Rusage.Stime.Nano())
	if w.group != nil {
		if r, err := w.group.Report(); err != nil {
			w.owner.log.Warn("report of a worker's group", "worker", w.id, "error", err)
		} else {
			x.PeakBytes = r.PeakBytes
			x.OutOfMemory = x.OutOfMemory || r.OOMKills > 0
		}
	}
	w.owner.leave(w)
	x.Stderr = w.stderr.finish(w.proc.Close)
	w.free()
	return x
}

// freeOnceOver frees a worker without a process. One may still come when the
// spawner has not answered yet: until that is over the uid stays taken.
func (w *process) freeOnceOver(err error) {
	left, ok := errors.AsType[*spawn.LeftError](err)
	if !ok {
		w.free()
		return
	}
	w.owner.starts.Go(func() { // ends with the spawner's answer or the spawner
		<-left.Gone
		w.free()
	})
}

// free removes the group and gives the uid back. While something is left in
// the group its uid stays taken.
func (w *process) free() {
	if w.group != nil {
		err := w.group.Remove()
		if err != nil {
			err = errors.Join(w.group.Kill(), w.group.Remove())
		}
		if err != nil {
			w.owner.log.Error("group of a dead worker stays", "worker", w.id, "error", err)
			return
		}
	}
	if w.uid != nil {
		if err := w.uid.Release(); err != nil {
			w.owner.log.Error("uid of a dead worker stays taken", "worker", w.id, "error", err)
		}
	}
}
