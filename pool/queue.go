package pool

import (
	"container/list"
	"time"
)

// waiter is one Acquire that waits.
type waiter struct {
	want  Want
	since time.Time
	line  *line
	place *list.Element // in its line; nil once it has left the queue
	done  chan struct{} // closed when lease or err is set
	lease *Lease
	err   error
}

// queue holds the waiters. Resumes come before new runs; within each of the
// two, sessions take turns, and a session's own runs keep their order.
type queue struct {
	resumes, starts level
}

// level is one class of waiters.
type level struct {
	lines map[string]*line
	turns list.List // of *line; the front is next
	count int
}

// line is the waiters of one session.
type line struct {
	session string
	level   *level
	turn    *list.Element
	waiters list.List // of *waiter
}

func (q *queue) len() int { return q.resumes.count + q.starts.count }

// push adds a waiter at the end of its session's line.
func (q *queue) push(w *waiter) {
	v := &q.starts
	if w.want.Resume {
		v = &q.resumes
	}
	n := v.lines[w.want.Session]
	if n == nil {
		if v.lines == nil {
			v.lines = map[string]*line{}
		}
		n = &line{session: w.want.Session, level: v}
		n.turn = v.turns.PushBack(n)
		v.lines[w.want.Session] = n
	}
	w.line = n
	w.place = n.waiters.PushBack(w)
	v.count++
}

// next is the waiter whose turn it is, nil when nobody waits.
func (q *queue) next() *waiter {
	for _, v := range []*level{&q.resumes, &q.starts} {
		if f := v.turns.Front(); f != nil {
			return f.Value.(*line).waiters.Front().Value.(*waiter)
		}
	}
	return nil
}

// nextOf is the first waiter that a worker bound to b may serve.
func (q *queue) nextOf(b binding) *waiter {
	for _, v := range []*level{&q.resumes, &q.starts} {
		n := v.lines[b.session]
		if n == nil {
			continue
		}
		for p := n.waiters.Front(); p != nil; p = p.Next() {
			if w := p.Value.(*waiter); w.want.binding() == b {
				return w
			}
		}
	}
	return nil
}

// remove takes a waiter out. Was it served, its session has had its turn.
func (q *queue) remove(w *waiter, served bool) {
	n, v := w.line, w.line.level
	n.waiters.Remove(w.place)
	w.place = nil
	v.count--
	if n.waiters.Len() == 0 {
		v.turns.Remove(n.turn)
		delete(v.lines, n.session)
		return
	}
	if served {
		v.turns.MoveToBack(n.turn)
	}
}

// drain takes everybody out.
func (q *queue) drain() []*waiter {
	all := make([]*waiter, 0, q.len())
	for w := q.next(); w != nil; w = q.next() {
		q.remove(w, false)
		all = append(all, w)
	}
	return all
}
