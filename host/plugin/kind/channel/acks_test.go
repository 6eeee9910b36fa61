package channel

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"google.golang.org/grpc"
	"pgregory.net/rapid"

	"github.com/flynnhost/flynn/sdk/plugintest/rude"
	"github.com/flynnhost/flynn/sdk/proto/bounds"
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
			a.done(open[i], nil)
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

// TestRefusedEventsAreNamed: a plugin with wire code of its own hears in its acks which events the host refused, and that it has the others.
func TestRefusedEventsAreNamed(t *testing.T) {
	ids := []string{"fine", "refused by the inbox", ""}
	for _, id := range rude.IDs() {
		ids = append(ids, id.Text)
	}
	want := map[uint64]bool{}
	for i, id := range ids {
		want[uint64(i+1)] = bounds.ID(id) != nil || id == "" || i == 1
	}
	rejected := map[uint64]string{}
	plugin := &provider{receive: func(stream grpc.BidiStreamingServer[channelv1.ReceiveRequest, channelv1.ReceiveResponse]) error {
		for i, id := range ids {
			change := func(e *channelv1.Event) { e.Conversation.Id = strings.ToValidUTF8(id, "\x00") } // gRPC carries no other strings
			if err := stream.Send(rawEvent(uint64(i+1), change)); err != nil {
				return err
			}
		}
		for last := uint64(0); last < uint64(len(ids)); {
			frame, err := stream.Recv()
			if err != nil {
				return err
			}
			last = max(last, frame.GetAck().GetSeq())
			for _, r := range frame.GetAck().GetRejected() {
				if rejected[r.GetSeq()] != "" || r.GetSeq() > frame.GetAck().GetSeq() || len(r.GetReason()) > maxReason || !utf8.ValidString(r.GetReason()) {
					return fmt.Errorf("event %d is rejected by %v", r.GetSeq(), frame)
				}
				rejected[r.GetSeq()] = r.GetReason()
			}
		}
		return nil
	}}
	err := connect(t, plugin).Receive(t.Context(), len(ids), func(e Event, done func(error)) {
		if e.Conversation.ID == ids[1] { // and is named as well
			done(fmt.Errorf("accept: %w", &RejectedError{errors.New(strings.Repeat("é", maxReason))}))
			return
		}
		done(nil)
	})
	if err != nil && !strings.Contains(err.Error(), "EOF") {
		t.Fatal(err)
	}
	for i, id := range ids {
		if seq := uint64(i + 1); want[seq] != (rejected[seq] != "") {
			t.Errorf("conversation %.40q: rejected for %q, want %v", id, rejected[seq], want[seq])
		}
	}
}

// TestAnotherErrorIsNoRejection: an event that the host could not keep is not acked; it has to come again.
func TestAnotherErrorIsNoRejection(t *testing.T) {
	frames := make(chan *channelv1.ReceiveRequest, 4)
	plugin := &provider{receive: func(stream grpc.BidiStreamingServer[channelv1.ReceiveRequest, channelv1.ReceiveResponse]) error {
		defer close(frames)
		if err := stream.Send(rawEvent(1, same)); err != nil {
			return err
		}
		for {
			frame, err := stream.Recv()
			if err != nil {
				return err
			}
			frames <- frame
		}
	}}
	err := connect(t, plugin).Receive(t.Context(), 4, func(_ Event, done func(error)) { done(errors.New("the disk is full")) })
	if err == nil {
		t.Error("the stream did not break")
	}
	for frame := range frames {
		if frame.GetAck() != nil {
			t.Errorf("got %v", frame)
		}
	}
}
