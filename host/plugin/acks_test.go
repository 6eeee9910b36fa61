package plugin

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/flynnhost/flynn/sdk/proto/channelv1"
)

// TestAcksAreCumulative: in whatever order events are done, an ack covers an event only when it and every earlier
// one are done, and at the end everything is acked.
func TestAcksAreCumulative(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		window := rapid.IntRange(1, 16).Draw(t, "window")
		total := rapid.IntRange(1, 60).Draw(t, "events")
		first := rapid.Uint64Range(1, 1<<40).Draw(t, "first")
		a := newAcks(window)
		var open []uint64
		done := map[uint64]bool{}
		next := first
		for len(done) < total {
			more := int(next-first) < total
			full := next-first > 0 && a.add(next+1) == nil // a gap must never be taken
			if full {
				t.Fatalf("took seq %d, expected %d", next+1, next)
			}
			if more && (len(open) == 0 || rapid.Bool().Draw(t, "deliver")) {
				err := a.add(next)
				if outstanding := int(next - 1 - a.acked); err == nil != (outstanding < window) {
					t.Fatalf("add with %d of %d outstanding: %v", outstanding, window, err)
				}
				if err == nil {
					open = append(open, next)
					next++
					continue
				}
			}
			i := rapid.IntRange(0, len(open)-1).Draw(t, "done")
			a.done(open[i])
			done[open[i]] = true
			open = slices.Delete(open, i, i+1)
			for seq := first; seq <= a.acked; seq++ {
				if !done[seq] {
					t.Fatalf("acked %d, but %d is not done", a.acked, seq)
				}
			}
		}
		if a.acked != first+uint64(total)-1 {
			t.Fatalf("acked %d of %d", a.acked-first+1, total)
		}
	})
}

func TestSeqZeroIsRefused(t *testing.T) {
	if err := newAcks(1).add(0); err == nil {
		t.Error("seq 0 was taken")
	}
}

func TestUnknownFramesAreIgnored(t *testing.T) {
	var frame channelv1.ReceiveResponse
	frame.ProtoReflect().SetUnknown([]byte{0xfa, 0x01, 0x00}) // field 31, empty: a frame of a later protocol
	if frame.GetEvent() != nil {
		t.Error("an unknown frame became an event")
	}
}
