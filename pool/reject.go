package pool

// Reject ends the worker of a lease for something that it said and that only
// the caller could see to be a lie. It is [EndProtocol]; err says what it was.
// The lease is released.
func (l *Lease) Reject(err error) {
	l.pool.end(l.entry, EndProtocol, err)
	l.close()
}
