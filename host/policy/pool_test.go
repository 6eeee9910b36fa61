package policy

import (
	"context"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	w "github.com/flynnhost/flynn/host/policy/meter/wasmtest"
)

func TestPoolSharesFewInstancesAmongMany(t *testing.T) {
	e := engine(t, tool("p", write(t, version(1, 1))))
	m := e.slots[0].module
	var inUse, most atomic.Int64
	var workers sync.WaitGroup
	for range 32 {
		workers.Go(func() {
			for range 300 {
				i, err := m.pool.get(context.Background(), rand.Uint32())
				if err != nil {
					t.Error(err)
					return
				}
				n := inUse.Add(1)
				for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
				}
				inUse.Add(-1)
				m.pool.put(i)
			}
		})
	}
	workers.Wait()
	if st := e.Status()[0]; st.Instances > m.pool.most || most.Load() > int64(m.pool.most) {
		t.Errorf("%d instances, %d in use at once, at most %d are allowed", st.Instances, most.Load(), m.pool.most)
	}
}

func TestPoolReplacesWhatIsDiscarded(t *testing.T) {
	e := engine(t, tool("p", write(t, version(1, 1))))
	p := e.slots[0].module.pool
	var workers sync.WaitGroup
	for range 16 {
		workers.Go(func() {
			for k := range 100 {
				i, err := p.get(context.Background(), 0)
				switch {
				case err != nil:
					t.Error(err)
					return
				case k%3 == 0:
					p.discard(i)
				default:
					p.put(i)
				}
			}
		})
	}
	workers.Wait()
	var sum stats
	if n := p.sum(&sum); n != p.live || n > p.most {
		t.Errorf("%d instances, counted as %d", n, p.live)
	}
}

func TestWaitForAnInstanceEndsWithTheCaller(t *testing.T) {
	e := engine(t, tool("p", write(t, version(1, 1))))
	p := e.slots[0].module.pool
	p.most = 1
	i, err := p.get(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s := e.Pin()
	defer s.Release()
	if got, r := s.Tool(ctx, toolFacts()); !got.Deny || !strings.HasPrefix(r[0].Error, "busy: ") {
		t.Errorf("%+v", r[0])
	}
	p.put(i)
	if got, r := s.Tool(t.Context(), toolFacts()); !got.Deny || r[0].Error != "" {
		t.Errorf("%+v", r[0])
	}
}

// TestWhatComesAtTheLastMomentIsUsed hands an instance to a waiter whose patience is over by then, and who is in no queue any more.
func TestWhatComesAtTheLastMomentIsUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, turn := newPool(nil), make(chan *instance, 1)
		came := &instance{slot: &p.slots[0]}
		go func() {
			time.Sleep(patience + 1)
			turn <- came
		}()
		if got, err := p.wait(t.Context(), turn); got != came || err != nil {
			t.Errorf("got %p, %v", got, err)
		}
	})
}

func TestGrownInstanceIsReplaced(t *testing.T) {
	// It grows at every decision but the made-up one, whose seed is 0, and answers with its size.
	m := w.New()
	get := m.Import("flynn1", "get", "iiii>i")
	m.Memory(1, -1)
	wasm := m.Hook("flynn_tool", "", w.I32(19), w.I32(0), w.I32(16), w.I32(8), w.Call(get), w.Op(0x1a), w.I32(16), w.Load(0x28, 0),
		w.If(w.I32(1), w.Op(0x40, 0), w.Op(0x1a)), w.Op(0x3f, 0), w.Op(0xad), w.I64(8), w.Op(0x86))
	e := engine(t, tool("p", write(t, wasm)))
	s := e.Pin()
	defer s.Release()
	for range 5 {
		if _, r := s.Tool(t.Context(), toolFacts()); r[0].Rule != 2 || r[0].Error != "" {
			t.Errorf("%+v", r[0])
		}
	}
	if st := e.Status()[0]; st.Instances > 1 || st.MemoryEach != 64<<10 {
		t.Errorf("%+v", st)
	}
}

func TestSleepTakesNoTime(t *testing.T) {
	m := w.New()
	poll, clock := m.Import(wasi, "poll_oneoff", "iiii>i"), m.Import(wasi, "clock_time_get", "ili>i")
	m.Memory(1, -1)
	const hour = 3600_000_000_000
	wasm := m.Hook("flynn_tool", "", w.I32(24+64), w.I64(hour), w.Load(0x37, 0), w.I32(64), w.I32(256), w.I32(1), w.I32(512), w.Call(poll), w.Op(0x1a),
		w.I32(0), w.I64(0), w.I32(16), w.Call(clock), w.Op(0x1a), w.I32(16), w.Load(0x29, 0), w.I64(1_000_000_000), w.Op(0x80),
		w.I64(someFacts().Now.Unix()), w.Op(0x7d), w.I64(8), w.Op(0x86))
	if r := ask(t, wasm, toolFacts()); r.Rule != 3600 || r.Error != "" || r.Took > slack {
		t.Errorf("the clock moved by %d seconds in %v: %q", r.Rule, r.Took, r.Error)
	}
}
