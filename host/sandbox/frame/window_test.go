package frame

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"testing"

	"pgregory.net/rapid"
)

// A sender that keeps to its window and a receiver that gives credit for what it consumed never
// break the protocol, never stall, and deliver every byte in order.
func TestCreditNeverStallsNorOverflows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		total := rapid.IntRange(1, 2*WindowSize).Draw(t, "total")
		send, inbox := NewSendWindow(), NewInbox(make(chan struct{}, 1))
		sent, received := 0, 0
		take := func() {
			p, credit, _ := inbox.Take()
			for _, b := range p {
				if b != byte(received) {
					t.Fatalf("byte %d is %d", received, b)
				}
				received++
			}
			if credit != nil {
				if err := send.Grant(credit); err != nil {
					t.Fatal(err)
				}
			}
		}
		for sent < total {
			ended, cancel := context.WithCancel(context.Background())
			cancel() // without credit Take must wait, and so return this
			n, err := send.Take(ended, min(total-sent, rapid.IntRange(MaxData/16, MaxData).Draw(t, "want")))
			if err != nil {
				before := received
				if take(); received == before {
					t.Fatal("no credit and nothing to take: stalled")
				}
				continue
			}
			p := make([]byte, n)
			for i := range p {
				p[i] = byte(sent + i)
			}
			if err := inbox.Put(p); err != nil {
				t.Fatal(err)
			}
			sent += n
			if rapid.Bool().Draw(t, "take") {
				take()
			}
		}
		if take(); received != total {
			t.Fatalf("received %d of %d", received, total)
		}
	})
}

func TestInboxRefusesWhatHasNoCredit(t *testing.T) {
	b := NewInbox(make(chan struct{}, 1))
	for range WindowSize / MaxData {
		if err := b.Put(make([]byte, MaxData)); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.Put([]byte{1}); !errors.Is(err, ErrProtocol) {
		t.Errorf("beyond the window: %v", err)
	}
	b.End()
	if err := b.Put([]byte{1}); !errors.Is(err, ErrProtocol) {
		t.Errorf("after the end: %v", err)
	}
	p, _, ended := b.Take()
	if len(p) != WindowSize || !ended {
		t.Errorf("took %d bytes, ended %v", len(p), ended)
	}
}

func TestGrantRefusesForgedCredit(t *testing.T) {
	for name, p := range map[string][]byte{
		"empty": nil, "zero": {0, 0, 0, 0}, "on top of a full window": {0, 0, 0, 1},
		"overflow": {0xff, 0xff, 0xff, 0xff}, "long": bytes.Repeat([]byte{0}, 5),
	} {
		if err := NewSendWindow().Grant(p); !errors.Is(err, ErrProtocol) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	w := NewSendWindow()
	if n, err := w.Take(t.Context(), WindowSize+1); err != nil || n != WindowSize {
		t.Fatalf("took %d (%v)", n, err)
	}
	if err := w.Grant(binary.BigEndian.AppendUint32(nil, WindowSize)); err != nil {
		t.Error(err)
	}
}
