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

// When a warm instance is reset to its first state without a failure.
const (
	resetEvery = 10_000 // decisions
	resetAfter = 5 * time.Minute
	// One of sampleEvery warm decisions is repeated from the first state, to find hidden state. A young instance is sampled more
	// often, so that a quiet host finds it, too, and always at random, since a policy's counter may have any period.
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
	faults      atomic.Int64 // failures of every class, including those of its answers
	trial       atomic.Pointer[trial]

	globs       patterns[*glob.Pattern]
	expressions patterns[*expression]
}

// retain takes a reference, and returns m. A nil module has no references.
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
		// Closing a module without instances only removes it from the runtime's table.
		_ = m.compiled.Close(context.Background())
	}
	m.blockCounts.close()
	_ = m.host.release() // Engine.Close reports its own error
}

// Name returns the policy's name.
func (m *Module) Name() string { return m.source.Name }

// Digest returns the SHA-256 of everything that decides: module, data, limits and the meter's version.
func (m *Module) Digest() string { return m.digest }

// File returns the SHA-256 of the module's file.
func (m *Module) File() string { return m.file }

// Isolation returns IsolationPure or IsolationWarm.
func (m *Module) Isolation() string { return m.source.isolation() }

// Decides reports whether the policy makes decisions of this kind.
func (m *Module) Decides(kind string) bool { return m.source.has(kind) }

// Info returns what the meter found out about the module.
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
	l, v := m.alone(ctx, routeQuery(&f, m.host.zone, newAgentList(f.Agents)), frame, &r)
	if l.route(&v, f.Agents, &r, &a); !a.Decided {
		a = RouteAnswer{}
	}
	return a, r
}

// Tool asks this module alone.
func (m *Module) Tool(ctx context.Context, f ToolFacts) (Restrictions, Record) {
	return m.ToolFrame(ctx, nil, f)
}

// ToolFrame is RouteFrame for a tool decision.
func (m *Module) ToolFrame(ctx context.Context, frame []byte, f ToolFacts) (Restrictions, Record) {
	var r Record
	if !m.Decides(KindTool) {
		return Restrictions{}, r
	}
	l, v := m.alone(ctx, toolQuery(&f, m.host.zone), frame, &r)
	return l.restrict(&v, &r), r
}

// alone asks this module outside of any chain.
func (m *Module) alone(ctx context.Context, q *query, frame []byte, r *Record) (l link, v decision) {
	if frame != nil {
		q.frame = frame
	}
	l = link{source: m.source, module: m}
	l.ask(ctx, q, r, &v)
	return l, v
}

// ask makes one decision on an instance of the pool.
func (m *Module) ask(ctx context.Context, q *query, r *Record, v *decision) {
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

// acquire takes an instance for a decision, in its first state if first is set or a reset is due. An instance that cannot be reset
// is replaced.
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

// stale reports whether a warm instance is due for a reset.
func (i *instance) stale() bool {
	if i.broken || i.since >= resetEvery {
		return true
	}
	const look = 64 // decisions between readings of the clock, which are expensive
	return i.since%look == 0 && i.module.host.clock()-i.resetAt > resetAfter
}

// sampleDue reports whether the last decision is one to sample. It counts all decisions of the instance, across resets.
func (i *instance) sampleDue() bool { return i.stats.decisions.Load() >= i.sampleAt }

// firstSample returns the first decision to sample, which is never reached where blocks are counted: a sample would count blocks of no decision of the caller's.
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

// sample repeats the decision from the first state. If the answer differs, the policy has state from other decisions.
func (m *Module) sample(ctx context.Context, i *instance, q *query, v *decision) {
	defer i.planSample()
	first := i
	if !i.reset() { // its memory has grown
		fresh, err := m.instantiate()
		if err != nil {
			return
		}
		defer fresh.close()
		first = fresh
	}
	var again decision
	if first.decide(ctx, q, &Record{}, &again); !again.same(v) {
		i.stats.stateful.Add(1)
	}
}

// same reports whether two decisions are equal. A failure for lack of time says nothing about the module and counts as equal.
func (v *decision) same(other *decision) bool {
	if v.err != nil {
		return v.err.Class == ClassDeadline || v.err.Class == ClassBusy
	}
	return v.code == other.code && v.rule == other.rule && v.name == other.name && v.reason == other.reason
}

// fill fills in the part of a status that is about the module.
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
