package cellblock

import "log/slog"

// State is where a run is in its life.
//
//	running -> waiting -> running ...
//	running -> completed | failed | aborted
//	waiting -> expired | aborted
type State string

// The states.
const (
	StateRunning   State = "running"
	StateWaiting   State = "waiting"
	StateCompleted State = "completed"
	StateFailed    State = "failed"
	StateExpired   State = "expired"
	StateAborted   State = "aborted"
)

// final says that nothing comes after a state.
func (s State) final() bool { return s != StateRunning && s != StateWaiting }

// moveTo changes the state of the cell, logs the change, counts it and puts it
// into the trajectory. A cell that has ended stays as it is.
func (c *cell) moveTo(s State) {
	c.mu.Lock()
	from := c.state
	if from == s || from.final() {
		c.mu.Unlock()
		return
	}
	c.state = s
	c.mu.Unlock()
	c.moved(from, s)
}

// moved tells of a change of state.
func (c *cell) moved(from, s State) {
	if from == s || from.final() {
		return
	}
	if c.run.log.Enabled(c.ctx, slog.LevelDebug) {
		c.run.log.Debug("run moves", "call", c.callID, "from", from, "to", s)
	}
	c.run.sup.moves.add(from, s)
	c.run.record(EventTransition, c.callID, func(e *Event) { e.Result = facts(map[string]any{"from": from, "to": s}) })
}
