package ipc

// The fields of every message, in their order on the wire: encode and decode
// of a type stand side by side and mirror each other.

// newMessage returns an empty message of a kind that has a sender.
func newMessage(k Kind) Message {
	switch k {
	case KindBoot:
		return new(Boot)
	case KindGate:
		return new(Gate)
	case KindGo:
		return new(Go)
	case KindReceipt:
		return new(Receipt)
	case KindStart:
		return new(Start)
	case KindSettle:
		return new(Settle)
	case KindHave:
		return new(Have)
	case KindRestore:
		return new(Restore)
	case KindOutput:
		return new(Output)
	case KindIdle:
		return new(Idle)
	case KindDone:
		return new(Done)
	case KindFailed:
		return new(Failed)
	case KindNeed:
		return new(Need)
	case KindPark:
		return new(Park)
	case KindParked:
		return new(Parked)
	case KindReset:
		return new(Reset)
	default:
		return new(Ready)
	}
}

// Kind is KindBoot.
func (*Boot) Kind() Kind  { return KindBoot }
func (*Boot) fields() int { return 7 }

func (m *Boot) encode(e *encoder) {
	e.uint(uint64(m.Version))
	e.names("waivers", m.Waive, MaxWaive)
	e.bool(m.Gate)
	e.uint(m.MemoryBytes)
	e.uint(m.DataBytes)
	e.bool(m.Warm)
	e.bool(m.Renew)
}

func (m *Boot) decode(d *decoder) {
	m.Version = d.uint32()
	m.Waive = d.names(MaxWaive)
	m.Gate = d.bool()
	m.MemoryBytes = d.uint()
	m.DataBytes = d.uint()
	m.Warm = d.bool()
	m.Renew = d.bool()
}

// Kind is KindGate.
func (*Gate) Kind() Kind      { return KindGate }
func (*Gate) fields() int     { return 0 }
func (*Gate) encode(*encoder) {}
func (*Gate) decode(*decoder) {}

// Kind is KindGo.
func (*Go) Kind() Kind      { return KindGo }
func (*Go) fields() int     { return 0 }
func (*Go) encode(*encoder) {}
func (*Go) decode(*decoder) {}

// Kind is KindReceipt.
func (*Receipt) Kind() Kind  { return KindReceipt }
func (*Receipt) fields() int { return 5 }

func (m *Receipt) encode(e *encoder) {
	e.uint(uint64(m.Version))
	e.list("walls", len(m.Walls), MaxWalls)
	for i := range m.Walls {
		w := &m.Walls[i]
		e.list("wall", 3, 3)
		e.name(w.Name)
		e.bool(w.Up)
		e.text(w.Detail, MaxDetail)
	}
	e.digest(&m.Engine)
	e.digest(&m.Base)
	e.list("steps", len(m.Steps), MaxSteps)
	for i := range m.Steps {
		e.list("step", 2, 2)
		e.name(m.Steps[i].Name)
		e.uint(m.Steps[i].Micros)
	}
}

func (m *Receipt) decode(d *decoder) {
	m.Version = d.uint32()
	m.Walls = emptySlice[Wall](d.list(MaxWalls))
	for i := range m.Walls {
		w := &m.Walls[i]
		d.structOf(3)
		w.Name = d.string(MaxName)
		w.Up = d.bool()
		w.Detail = d.string(MaxDetail)
	}
	d.digest(&m.Engine)
	d.digest(&m.Base)
	m.Steps = emptySlice[Step](d.list(MaxSteps))
	for i := range m.Steps {
		d.structOf(2)
		m.Steps[i].Name = d.string(MaxName)
		m.Steps[i].Micros = d.uint()
	}
}

// emptySlice keeps an empty list nil. n has passed decoder.list.
func emptySlice[T any](n int) []T {
	if n == 0 {
		return nil
	}
	return make([]T, n)
}

const limitsFields = 7

func (m *Limits) encode(e *encoder) {
	e.list("limits", limitsFields, limitsFields)
	e.uint(m.MemoryBytes)
	e.uint(m.OutputBytes)
	e.uint(m.SnapshotBytes)
	e.uint(m.BridgeBytes)
	e.uint(uint64(m.PendingCalls))
	e.uint(uint64(m.Timers))
	e.bool(m.Truncate)
}

func (m *Limits) decode(d *decoder) {
	d.structOf(limitsFields)
	m.MemoryBytes = d.uint()
	m.OutputBytes = d.uint()
	m.SnapshotBytes = d.uint()
	m.BridgeBytes = d.uint()
	m.PendingCalls = d.uint32()
	m.Timers = d.uint32()
	m.Truncate = d.bool()
}

// Kind is KindStart.
func (*Start) Kind() Kind  { return KindStart }
func (*Start) fields() int { return 9 }

func (m *Start) encode(e *encoder) {
	e.blob("source", m.Source)
	e.uint(uint64(m.Language))
	e.time(m.TimeLeft)
	m.Limits.encode(e)
	e.uint(m.Seed)
	e.bool(m.RestartSafe)
	e.bool(m.Swarm)
	e.digest(&m.Catalog)
	e.names("globals", m.Globals, MaxGlobals)
}

func (m *Start) decode(d *decoder) {
	d.blob(&m.Source)
	m.Language = Language(d.uint8(uint8(TypeScript)))
	m.TimeLeft = d.time()
	m.Limits.decode(d)
	m.Seed = d.uint()
	m.RestartSafe = d.bool()
	m.Swarm = d.bool()
	d.digest(&m.Catalog)
	m.Globals = d.names(MaxGlobals)
}

func (e *encoder) batch(batch []Settled) {
	e.list("batch", len(batch), MaxBatch)
	for i := range batch {
		e.list("settled", 3, 3)
		e.uint(uint64(batch[i].ID))
		e.bool(batch[i].OK)
		e.blob("result", batch[i].Value)
	}
}

func (d *decoder) batch() []Settled {
	batch := emptySlice[Settled](d.list(MaxBatch))
	for i := range batch {
		d.structOf(3)
		batch[i].ID = d.uint32()
		batch[i].OK = d.bool()
		d.blob(&batch[i].Value)
	}
	return batch
}

// Kind is KindSettle.
func (*Settle) Kind() Kind  { return KindSettle }
func (*Settle) fields() int { return 2 }

func (m *Settle) encode(e *encoder) {
	e.time(m.TimeLeft)
	e.batch(m.Batch)
}

func (m *Settle) decode(d *decoder) {
	m.TimeLeft = d.time()
	m.Batch = d.batch()
}

func (e *encoder) part(p Part) { e.uint(uint64(p)) }

func (d *decoder) part() Part {
	p := Part(d.uint8(uint8(PartNamespaces)))
	if d.err == nil && p == 0 {
		d.fail("part 0")
	}
	return p
}

// Kind is KindHave.
func (*Have) Kind() Kind  { return KindHave }
func (*Have) fields() int { return 4 }

func (m *Have) encode(e *encoder) {
	e.time(m.TimeLeft)
	e.digest(&m.Catalog)
	e.part(m.Part)
	e.blob("part", m.JSON)
}

func (m *Have) decode(d *decoder) {
	m.TimeLeft = d.time()
	d.digest(&m.Catalog)
	m.Part = d.part()
	d.blob(&m.JSON)
}

// Kind is KindRestore.
func (*Restore) Kind() Kind  { return KindRestore }
func (*Restore) fields() int { return 5 }

func (m *Restore) encode(e *encoder) {
	e.blob("snapshot", m.Snapshot)
	e.time(m.TimeLeft)
	m.Limits.encode(e)
	e.uint(m.OutputBytes)
	e.batch(m.Batch)
}

func (m *Restore) decode(d *decoder) {
	d.blob(&m.Snapshot)
	m.TimeLeft = d.time()
	m.Limits.decode(d)
	m.OutputBytes = d.uint()
	m.Batch = d.batch()
}

// Kind is KindOutput.
func (*Output) Kind() Kind  { return KindOutput }
func (*Output) fields() int { return 1 }

func (m *Output) encode(e *encoder) {
	e.list("items", len(m.Items), MaxItems)
	for _, item := range m.Items {
		e.blob("item", item)
	}
}

func (m *Output) decode(d *decoder) {
	m.Items = emptySlice[[]byte](d.list(MaxItems))
	for i := range m.Items {
		d.blob(&m.Items[i])
	}
}

func (m *Stats) encode(e *encoder) {
	e.list("stats", 2, 2)
	e.uint(m.GuestMicros)
	e.uint(m.HeapBytes)
}

func (m *Stats) decode(d *decoder) {
	d.structOf(2)
	m.GuestMicros = d.uint()
	m.HeapBytes = d.uint()
}

// Kind is KindIdle.
func (*Idle) Kind() Kind  { return KindIdle }
func (*Idle) fields() int { return 3 }

func (m *Idle) encode(e *encoder) {
	e.list("calls", len(m.Calls), MaxCalls)
	for i := range m.Calls {
		c := &m.Calls[i]
		e.list("call", 3, 3)
		e.uint(uint64(c.ID))
		e.name(c.Method)
		e.blob("arguments", c.Args)
	}
	e.timer(m.NextTimer)
	m.Stats.encode(e)
}

func (m *Idle) decode(d *decoder) {
	m.Calls = emptySlice[Call](d.list(MaxCalls))
	last := uint32(0)
	for i := range m.Calls {
		c := &m.Calls[i]
		d.structOf(3)
		c.ID = d.uint32()
		if d.err == nil && c.ID <= last {
			d.fail("call id %d after %d", c.ID, last)
		}
		last = c.ID
		c.Method = d.string(MaxName)
		d.blob(&c.Args)
	}
	m.NextTimer = d.timer()
	m.Stats.decode(d)
}

// Kind is KindDone.
func (*Done) Kind() Kind  { return KindDone }
func (*Done) fields() int { return 4 }

func (m *Done) encode(e *encoder) {
	e.blob("value", m.Value)
	e.bool(m.Truncated)
	e.uint(m.Omitted)
	m.Stats.encode(e)
}

func (m *Done) decode(d *decoder) {
	d.blob(&m.Value)
	m.Truncated = d.bool()
	m.Omitted = d.uint()
	m.Stats.decode(d)
}

// Kind is KindFailed.
func (*Failed) Kind() Kind  { return KindFailed }
func (*Failed) fields() int { return 5 }

func (m *Failed) encode(e *encoder) {
	e.uint(uint64(m.Failure))
	e.text(m.Message, MaxText)
	e.bool(m.Started)
	e.text(m.Detail, MaxDetail)
	m.Stats.encode(e)
}

func (m *Failed) decode(d *decoder) {
	m.Failure = Failure(d.uint8(uint8(FailRestore)))
	if d.err == nil && m.Failure == 0 {
		d.fail("failure 0")
	}
	m.Message = d.string(MaxText)
	m.Started = d.bool()
	m.Detail = d.string(MaxDetail)
	m.Stats.decode(d)
}

// Kind is KindNeed.
func (*Need) Kind() Kind  { return KindNeed }
func (*Need) fields() int { return 2 }

func (m *Need) encode(e *encoder) {
	e.digest(&m.Catalog)
	e.part(m.Part)
}

func (m *Need) decode(d *decoder) {
	d.digest(&m.Catalog)
	m.Part = d.part()
}

// Kind is KindPark.
func (*Park) Kind() Kind          { return KindPark }
func (*Park) fields() int         { return 1 }
func (m *Park) encode(e *encoder) { e.uint(m.MaxBytes) }
func (m *Park) decode(d *decoder) { m.MaxBytes = d.uint() }

// Kind is KindParked.
func (*Parked) Kind() Kind  { return KindParked }
func (*Parked) fields() int { return 2 }

func (m *Parked) encode(e *encoder) {
	e.blob("snapshot", m.Snapshot)
	m.Stats.encode(e)
}

func (m *Parked) decode(d *decoder) {
	d.blob(&m.Snapshot)
	m.Stats.decode(d)
}

// Kind is KindReset.
func (*Reset) Kind() Kind      { return KindReset }
func (*Reset) fields() int     { return 0 }
func (*Reset) encode(*encoder) {}
func (*Reset) decode(*decoder) {}

// Kind is KindReady.
func (*Ready) Kind() Kind      { return KindReady }
func (*Ready) fields() int     { return 0 }
func (*Ready) encode(*encoder) {}
func (*Ready) decode(*decoder) {}
