package policy

import (
	"context"
	"math"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/flynnhost/flynn/host/internal/glob"
	"github.com/flynnhost/flynn/host/policy/meter"
	"github.com/tetratelabs/wazero"
)

// When a warm instance is put back to its first state, though nothing failed.
const (
	resetEvery = 10_000 // decisions
	resetAfter = 5 * time.Minute
	// sampleEvery is how often a warm decision is asked again of the first state, to find hidden state. A young instance is sampled more
	// often, so that a quiet host finds it, too; and always at random, since what a policy counts may have any period.
	sampleEvery = 1_000
	sampleFirst = 16
	sampleYoung = 8 // samples before they become half as frequent
)

// Module is a policy's module, loaded and ready to be asked. It is safe for concurrent use.
type Module struct {
	source      Source
	limits      Limits
	digest      string // of module, data, limits and meter version
	file        string // SHA-256 of the file
	info        meter.Info
	warning     string
	host        *host
	compiled    wazero.CompiledModule
	rego        *dialect // nil unless OPA's compiler made it
	image       *image   // nil when the module hides state outside of memory
	pure        bool
	pool        *pool
	blockCounts *blockCounts // nil where blocks are not counted
	refs        atomic.Int64
	faults      atomic.Int64 // failures of every class, those of its answers too
	trial       atomic.Pointer[trial]

	globs       patterns[*glob.Pattern]
	expressions patterns[*expression]
}

// retain takes a reference. A nil module has none.
func (m *Module) retain() *Module {
	if m != nil {
		m.refs.Add(1)
	}
	return m
}

// release gives a reference back; the last one closes the instances, then the code.
func (m *Module) release() {
	if m == nil || m.refs.Add(-1) > 0 {
		return
	}
	m.close()
}

func (m *Module) close() {
	if m.pool != nil {
		m.pool.close()
	}
	m.image.close()
	if m.compiled != nil {
		// Closing code without instances only drops it from the runtime's table.
		_ = m.compiled.Close(context.Background())
	}
	m.blockCounts.close()
	_ = m.host.release() // an engine that is closed reports its own
}

// Name is the policy's name.
func (m *Module) Name() string { return m.source.Name }

// Digest is the SHA-256 of all that decides: module, data, limits and the meter's version.
func (m *Module) Digest() string { return m.digest }

// File is the SHA-256 of the module's file.
func (m *Module) File() string { return m.file }

// Isolation is IsolationPure or IsolationWarm.
func (m *Module) Isolation() string { return m.source.isolation() }

// Decides reports whether the policy makes decisions of this kind.
func (m *Module) Decides(kind string) bool { return m.source.has(kind) }

// Info is what was learned about the module while it was loaded.
func (m *Module) Info() meter.Info { return m.info }

// Route asks this module alone.
func (m *Module) Route(ctx context.Context, f RouteFacts) (RouteAnswer, Record) {
	return m.RouteFrame(ctx, nil, f)
}

// RouteFrame is Route with another frame than that of the facts, unless it is nil. The facts still say what the module may read besides
// the frame, and which agents may be chosen.
func (m *Module) RouteFrame(ctx context.Context, frame []byte, f RouteFacts) (a RouteAnswer, r Record) {
	if !m.Decides(KindRoute) {
		return a, r
	}
	q := routeQuery(&f, m.host.zone)
	if frame != nil {
		q.frame = frame
	}
	l := link{source: m.source, module: m}
	var v verdict
	l.ask(ctx, &q, &r, &v)
	if l.route(&v, f.Agents, &r, &a); !a.Decided {
		a = RouteAnswer{}
	}
	return a, r
}

// Tool asks this module alone.
func (m *Module) Tool(ctx context.Context, f ToolFacts) (Restrictions, Record) {
	return m.ToolFrame(ctx, nil, f)
}

// ToolFrame is Tool with another frame than that of the facts, unless it is nil. The facts still say what the module may read besides
// the frame.
func (m *Module) ToolFrame(ctx context.Context, frame []byte, f ToolFacts) (Restrictions, Record) {
	var r Record
	if !m.Decides(KindTool) {
		return Restrictions{}, r
	}
	q := toolQuery(&f, m.host.zone)
	if frame != nil {
		q.frame = frame
	}
	l := link{source: m.source, module: m}
	var v verdict
	l.ask(ctx, &q, &r, &v)
	return l.restrict(&v, &r), r
}

// ask makes one decision on an instance of the pool.
func (m *Module) ask(ctx context.Context, q *query, r *Record, v *verdict) {
	i, err := m.acquire(ctx, q.shard, m.pure)
	if err != nil {
		v.err = err
		return
	}
	q.shard = i.slot.shard
	i.decide(ctx, q, r, v)
	if !m.pure && v.err == nil && m.image != nil && i.sampleDue() {
		m.sample(ctx, i, q, v)
	}
	m.pool.put(i)
}

// acquire takes an instance that is fit for a decision: in its first state if that is asked for, or due. One that cannot be put
// back is replaced.
func (m *Module) acquire(ctx context.Context, shard uint32, first bool) (*instance, *Error) {
	for range m.pool.most + 1 {
		i, err := m.pool.get(ctx, shard)
		if err != nil {
			return nil, err
		}
		if i.clean || !first && !i.stale() || i.reset() {
			return i, nil
		}
		m.blockCounts.keep(i)
		m.pool.discard(i)
	}
	return nil, failf(ClassBusy, "no instance is in its first state")
}

// stale tells that a warm instance is due for a reset.
func (i *instance) stale() bool {
	if i.broken || i.since >= resetEvery {
		return true
	}
	const look = 64 // reading the clock each time would cost more than it is worth
	return i.since%look == 0 && i.module.host.clock()-i.resetAt > resetAfter
}

// sampleDue goes by all decisions of the instance, however often it was reset.
func (i *instance) sampleDue() bool { return i.stats.decisions.Load() >= i.sampleAt }

// firstSample is never where blocks are counted: a sample would run them for no decision of the caller's.
func (m *Module) firstSample() int64 {
	if m.blockCounts != nil {
		return math.MaxInt64
	}
	return sampleFirst
}

// planSample chooses the next decision to sample.
func (i *instance) planSample() {
	window := int64(min(sampleEvery, sampleYoung<<(i.samples/sampleYoung)))
	i.samples = min(i.samples+1, sampleYoung*sampleYoung)
	i.sampleAt = i.stats.decisions.Load() + 1 + rand.Int64N(2*window)
}

// sample asks the first state the same question. Another answer means that the policy remembers what it should not.
func (m *Module) sample(ctx context.Context, i *instance, q *query, v *verdict) {
	defer i.planSample()
	first := i
	if !i.reset() { // its memory has grown, which is no way to hide
		fresh, err := m.instantiate()
		if err != nil {
			return
		}
		defer fresh.close()
		first = fresh
	}
	var again verdict
	if first.decide(ctx, q, &Record{}, &again); !again.same(v) {
		i.stats.stateful.Add(1)
	}
}

// same tells that two verdicts are the same in all that they say. A failure for want of time tells nothing of the module.
func (v *verdict) same(other *verdict) bool {
	if v.err != nil {
		return v.err.Class == ClassDeadline || v.err.Class == ClassBusy
	}
	return v.code == other.code && v.rule == other.rule && v.name == other.name && v.reason == other.reason
}

// fill tells of the module in force.
func (m *Module) fill(st *Status) {
	var sum stats
	st.Instances = m.pool.sum(&sum)
	st.File, st.Digest, st.Warning = m.file, m.digest, m.warning
	st.Decisions, st.Failures, st.Resets, st.Stateful = sum.decisions.Load(), sum.failures.Load(), sum.resets.Load(), sum.stateful.Load()
	st.FuelTotal, st.FuelMax = sum.fuelTotal.Load(), sum.fuelMax.Load()
	if m.image != nil {
		st.MemoryEach = int64(len(m.image.memory))
	}
}
