package turnbench

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/internal/hosttest"
)

// takeIdleSessions measures what sessions cost that had a turn each and are silent now. The heap is what was alive at the host's latest
// collection of garbage; a talk in one more session brings one about.
func takeIdleSessions(b *testing.B, t *table) {
	f := newFloor(b, t.bin, hosttest.Config{Env: []string{"GODEBUG=gctrace=1"}})
	f.settleHeap(b)
	before := f.weigh(b)
	held := 0
	for _, n := range []int{1000, 10_000} {
		var next atomic.Int64
		next.Store(int64(sessions + held))
		_, err := together(n-held, sessions, func(int) (time.Duration, error) { return f.turn(int(next.Add(1)), text) })
		f.must(b, err)
		held = n
		f.settleHeap(b)
		now := f.weigh(b)
		t.add(fmt.Sprintf("memory of %d idle sessions, each", n), fmt.Sprintf("RSS %.1f KB, heap %.1f KB", kilo(now.resident-before.resident, n),
			kilo(now.heap-before.heap, n)), "", true)
	}
}

func kilo(size int64, n int) float64 { return float64(size) / 1e3 / float64(n) }

// weight is memory in bytes.
type weight struct{ resident, heap int64 }

func (f *floor) weigh(b *testing.B) weight {
	<-time.After(idleAfter)
	return weight{sizesOf(b, f.program.PID())["RSS"], f.heap(b)}
}

// settleHeap talks until the host has collected its garbage twice: what is alive then is not just used.
func (f *floor) settleHeap(b *testing.B) {
	want := len(f.collections(b)) + 2
	for len(f.collections(b)) < want {
		_, err := f.talk(500, 1, text)
		f.must(b, err)
	}
}

// collected matches what the runtime says of a collection with gctrace: what was on the heap before, at its end, and what of it is
// alive, in MiB.
var collected = regexp.MustCompile(`(?m)^gc \d+ @.* \d+->\d+->(\d+) MB`)

func (f *floor) collections(b *testing.B) [][][]byte {
	text, err := os.ReadFile(f.program.Log)
	if err != nil {
		b.Fatal(err)
	}
	return collected.FindAllSubmatch(text, -1)
}

func (f *floor) heap(b *testing.B) int64 {
	all := f.collections(b)
	alive, err := strconv.Atoi(string(all[len(all)-1][1]))
	if err != nil {
		b.Fatal(err)
	}
	return int64(alive) << 20
}
