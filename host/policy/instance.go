package policy

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"time"
	"unicode"

	"github.com/tetratelabs/wazero/api"
)

// sliceFuel is how much fuel a module may spend before it has to call the host: about ten microseconds.
const sliceFuel = 100_000

// maxLog bounds what a decision prints, in bytes.
const maxLog = 4 << 10

// maxWords bounds a module's own text in an error, in bytes.
const maxWords = 1000

// instance is one instantiated module. One goroutine uses it at a time. It is the context of its own calls, so that the host's
// functions find it without a look-up.
type instance struct {
	module  *Module
	wasm    api.Module
	memory  api.Memory
	fuel    api.MutableGlobal
	depth   api.MutableGlobal
	globals []api.MutableGlobal
	route   api.Function
	tool    api.Function
	buffer  api.Function
	backing backing // of the memory
	rego    *rego   // of a module of OPA's; nil of all others
	slot    *poolSlot

	counters *counters // nil where blocks are not counted

	region, regionSize uint32 // where frames go
	clean              bool   // nothing has run since the last reset
	broken             bool   // the last decision failed
	since              int    // decisions since the last reset
	resetAt            time.Duration
	sampleAt           int64 // number of the decision that is next compared with the first state
	samples            int   // so far, of a young instance

	// The decision that is being made.
	caller    context.Context
	q         *query
	limit     int64
	slice     int64 // fuel that the module had when the host last looked
	spent     int64 // fuel until then
	wall      time.Duration
	deadline  time.Duration // 0 before the first look at the clock
	hostCalls int
	noted     int // bytes of the calls
	askedArgs bool
	refused   bool // memory
	fault     *Error
	random    *rand.PCG
	slept     uint64 // nanoseconds by which the decision's clocks have moved
	calls     []HostCall
	printed   []byte
	stack     [2]uint64
	names     interned
	cache     answerCache

	stats stats
}

// stats are written by the instance's user and read by anyone.
type stats struct {
	decisions, failures, resets, stateful, fuelTotal, fuelMax atomic.Int64
}

func (s *stats) add(to *stats) {
	to.decisions.Add(s.decisions.Load())
	to.failures.Add(s.failures.Load())
	to.resets.Add(s.resets.Load())
	to.stateful.Add(s.stateful.Load())
	to.fuelTotal.Add(s.fuelTotal.Load())
	to.fuelMax.Store(max(to.fuelMax.Load(), s.fuelMax.Load()))
}

// Deadline, Done, Err and Value make the instance a context that never ends; checkClock checks the caller's.
func (i *instance) Deadline() (time.Time, bool) { return time.Time{}, false }
func (i *instance) Done() <-chan struct{}       { return nil }
func (i *instance) Err() error                  { return nil }
func (i *instance) Value(any) any               { return nil }

// abort ends the module's call. It does not return.
func (i *instance) abort(err *Error) {
	i.fault = err
	panic(err)
}

// pay takes fuel for work that the host is about to do, and ends the call if there is not enough left. A module without loops
// could make many host calls before its own next check.
func (i *instance) pay(units int64) {
	if err := i.charge(units); err != nil {
		i.abort(err)
	}
}

// charge is pay for when no call of the module is running.
func (i *instance) charge(units int64) *Error {
	left := int64(i.fuel.Get()) - units
	i.fuel.Set(uint64(left))
	return i.spend(left)
}

// spend adds the used part of the slice to the sum, given what is left of it, and returns an error if the sum is over the limit.
func (i *instance) spend(left int64) *Error {
	i.spent += i.slice - left
	i.slice = left
	if i.spent > i.limit {
		return failf(ClassFuel, "more than %d units", i.limit)
	}
	return nil
}

func (i *instance) refill() {
	i.slice = min(sliceFuel, i.limit-i.spent)
	i.fuel.Set(uint64(i.slice))
}

// checkClock ends a call that takes too long. The time counts from its first call, which most decisions never make: they end
// before their first slice of fuel is spent, within microseconds.
func (i *instance) checkClock() {
	switch now := i.module.host.clock(); {
	case i.deadline == 0:
		i.deadline = now + i.wall
	case now > i.deadline:
		i.abort(failf(ClassDeadline, "more than %v", i.wall))
	}
	if err := i.caller.Err(); err != nil {
		i.abort(&Error{ClassDeadline, fmt.Errorf("the caller gave up: %w", err)})
	}
}

// print keeps as much of a text for the log as fits, and returns that part.
func (i *instance) print(text []byte) []byte {
	room := maxLog - len(i.printed)
	kept := text[:min(len(text), room)]
	i.printed = append(i.printed, kept...)
	return kept
}

// lastWords returns what the module printed, for the text of an error.
func (i *instance) lastWords() string {
	s := strings.TrimSpace(printable(string(i.printed[:min(len(i.printed), maxWords)])))
	if s == "" {
		return ""
	}
	return ", saying: " + s
}

// begin prepares one metered call.
func (i *instance) begin(ctx context.Context, q *query, fuel int64, wall time.Duration) {
	i.caller, i.q, i.limit, i.wall, i.deadline = ctx, q, fuel, wall, 0
	i.spent, i.hostCalls, i.noted, i.slept, i.askedArgs, i.refused = 0, 0, 0, 0, false, false
	i.fault, i.random, i.calls, i.printed = nil, nil, nil, i.printed[:0]
	// The rest of the last call's slice can be used up: fuel is counted by difference.
	if i.slice <= 0 || i.slice > fuel {
		i.refill()
	}
}

// end forgets the facts and returns the fuel used.
func (i *instance) end() int64 {
	i.caller, i.q = nil, nil
	return i.spent
}

// call runs an exported function, whose parameters and result are in i.stack, and classifies its failure.
func (i *instance) call(f api.Function) *Error {
	err := f.CallWithStack(i, i.stack[:])
	over := i.spend(int64(i.fuel.Get()))
	switch {
	case err == nil:
		return over
	case i.fault != nil:
		return i.fault
	case i.refused:
		return failf(ClassMemory, "no memory beyond %d bytes: %s", i.module.limits.Memory, brief(err))
	}
	return failf(ClassTrap, "%s%s", brief(err), i.lastWords())
}

// printable makes a module's text safe for a log and a terminal.
func printable(s string) string {
	return strings.Map(func(c rune) rune {
		if c == '\n' || c == '\t' || unicode.IsPrint(c) {
			return c
		}
		return '?'
	}, strings.ToValidUTF8(s, "?"))
}

// brief returns the first lines of a trap: what happened, and in which functions, whose names the module has chosen.
func brief(err error) string {
	lines := strings.Split(err.Error(), "\n")
	const most = 8
	if len(lines) > most {
		lines = append(lines[:most], "...")
	}
	s := strings.Join(lines, " ")
	return printable(s[:min(len(s), maxWords)])
}

// deliver writes the frame into the module's region, after asking for a larger one if necessary.
func (i *instance) deliver(frame []byte) *Error {
	if uint32(len(frame)) > i.regionSize {
		if err := i.findRegion(uint32(len(frame))); err != nil {
			return err
		}
	}
	if !i.memory.Write(i.region, frame) {
		return failf(ClassAnswer, "its buffer at %d lies outside memory", i.region)
	}
	return nil
}

// findRegion asks the module for a region for frames.
func (i *instance) findRegion(size uint32) *Error {
	i.stack[0] = uint64(size)
	if err := i.call(i.buffer); err != nil {
		return err
	}
	at := uint32(i.stack[0])
	switch {
	case at == 0:
		return failf(ClassAnswer, "it has no buffer of %d bytes", size)
	case at%8 != 0:
		return failf(ClassAnswer, "its buffer at %d is not aligned to 8", at)
	case uint64(at)+uint64(size) > uint64(i.memory.Size()):
		return failf(ClassAnswer, "its buffer of %d bytes at %d lies outside memory", size, at)
	}
	i.region, i.regionSize = at, size
	return nil
}

// decide asks the module once. It does not fill in the record's fields about the policy.
func (i *instance) decide(ctx context.Context, q *query, r *Record, v *decision) {
	limits := &i.module.limits
	began := i.module.host.clock()
	i.clean = false
	i.since++
	i.begin(ctx, q, limits.Fuel, limits.Wall)
	i.run(q.kind, q.frame, r, v)
	r.Calls = i.calls
	r.Fuel = i.end()
	r.Took = i.module.host.clock() - began
	i.count(v, r.Fuel)
}

func (i *instance) run(kind string, frame []byte, r *Record, v *decision) {
	if i.rego != nil {
		i.runRego(r, v)
		return
	}
	if v.err = i.deliver(frame); v.err != nil {
		return
	}
	f := i.route
	if kind == KindTool {
		f = i.tool
	}
	i.stack[0] = uint64(len(frame))
	if v.err = i.call(f); v.err != nil {
		return
	}
	r.Raw = int64(i.stack[0])
	region, ok := i.memory.Read(i.region, i.regionSize)
	if !ok {
		v.err = failf(ClassAnswer, "its buffer lies outside memory")
		return
	}
	i.readAnswer(kind, r.Raw, region, v)
}

// readAnswer reads an answer, from the cache if it was given before.
func (i *instance) readAnswer(kind string, raw int64, region []byte, v *decision) {
	frame := region[:min(uint64(raw)>>32, uint64(len(region)))]
	tool := kind == KindTool
	if i.cache.find(tool, raw, frame, v) {
		return
	}
	if v.read(kind, raw, region, &i.names); v.err == nil {
		v.place = slices.Index(i.q.agents, v.name)
		i.cache.keep(tool, raw, frame, v)
	}
}

func (i *instance) count(v *decision, fuel int64) {
	s := &i.stats
	s.decisions.Store(s.decisions.Load() + 1)
	s.fuelTotal.Store(s.fuelTotal.Load() + fuel)
	if fuel > s.fuelMax.Load() {
		s.fuelMax.Store(fuel)
	}
	i.broken = v.err != nil
	if i.broken {
		s.failures.Store(s.failures.Load() + 1)
	}
}

// close frees the instance. It must be called only once.
func (i *instance) close() {
	if i.wasm != nil {
		// Closing an instance without files cannot fail.
		_ = i.wasm.Close(i)
	}
	i.counters.close()
}
