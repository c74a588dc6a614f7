package cellblock

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

// moveTo changes the state of the cell, logs the change and counts it. Only
// the visit that drives the cell, or the expiry of its slot, calls it.
func (c *cell) moveTo(s State) {
	c.mu.Lock()
	from := c.state
	c.state = s
	c.mu.Unlock()
	if from != s {
		c.run.log.Debug("run moves", "call", c.callID, "from", from, "to", s)
		c.run.sup.moves.add(from, s)
	}
}
