package channel

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flynnhost/flynn/host/channel/mailbox"
	"github.com/flynnhost/flynn/host/message"
)

// fuse ends a process after so many effects on the outside: writes to the store and calls of the platform. A dead process has no
// effects any more, whatever it still tries.
type fuse struct {
	mu   sync.Mutex
	left int
	deaf bool // the last effect happens, and its process does not hear of it
	dead bool
}

var errDead = errors.New("the process is dead")

// burn reports whether an effect happens and whether the process hears of it.
func (f *fuse) burn() (happens, heard bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.dead {
		return false, false
	}
	f.left--
	f.dead = f.left == 0
	return true, !f.dead || !f.deaf
}

func mortal[T any](f *fuse, do func() (T, error)) (T, error) {
	var none T
	happens, heard := f.burn()
	if !happens {
		return none, errDead
	}
	v, err := do()
	if !heard {
		return none, errDead
	}
	return v, err
}

func mortalErr(f *fuse, do func() error) error {
	_, err := mortal(f, func() (struct{}, error) { return struct{}{}, do() })
	return err
}

type mortalRows struct {
	*memory
	*fuse
}

func (m mortalRows) SetOutbox(ctx context.Context, r mailbox.OutboxRow) error {
	return mortalErr(m.fuse, func() error { return m.memory.SetOutbox(ctx, r) })
}

type mortalShelf struct {
	*shelf
	*fuse
}

func (m mortalShelf) PutDraft(ctx context.Context, d mailbox.Draft) error {
	return mortalErr(m.fuse, func() error { return m.shelf.PutDraft(ctx, d) })
}

func (m mortalShelf) DropDraft(ctx context.Context, inbox int64) error {
	return mortalErr(m.fuse, func() error { return m.shelf.DropDraft(ctx, inbox) })
}

type mortalCanvas struct {
	*canvas
	*fuse
}

func (m mortalCanvas) Send(ctx context.Context, r message.Reply) (message.Delivery, error) {
	return mortal(m.fuse, func() (message.Delivery, error) { return m.canvas.Send(ctx, r) })
}

func (m mortalCanvas) SendDraft(ctx context.Context, r message.Reply) (message.Delivery, error) {
	return mortal(m.fuse, func() (message.Delivery, error) { return m.canvas.SendDraft(ctx, r) })
}

func (m mortalCanvas) Edit(ctx context.Context, e message.Revision) (message.Revised, error) {
	return mortal(m.fuse, func() (message.Revised, error) { return m.canvas.Edit(ctx, e) })
}

func (m mortalCanvas) Delete(ctx context.Context, c message.Conversation, id string) error {
	return mortalErr(m.fuse, func() error { return m.canvas.Delete(ctx, c, id) })
}

type mortalAlbum struct{ mortalCanvas }

func (m mortalAlbum) Capabilities() message.Capabilities { return album{m.canvas}.Capabilities() }

func (m mortalAlbum) Reconcile(ctx context.Context, r message.Reply) (message.Delivery, error) {
	return album{m.canvas}.Reconcile(ctx, r)
}

// TestDeathInEveryWindow ends the process after each of its effects in turn, and lets another one take over: the turn runs on if it
// was not committed, and the answer is delivered. The answer has two parts, the first of which is shown as a draft.
func TestDeathInEveryWindow(t *testing.T) {
	first, second := strings.Repeat("a", 100), strings.Repeat("b", 20)
	answer := first + second
	for _, kind := range []struct {
		name   string
		strict bool // nothing is shown twice, no draft is left over
		wrap   func(*canvas, *fuse) Sender
		keys   bool
	}{
		{"keys are recognised", true, func(c *canvas, f *fuse) Sender { return mortalCanvas{c, f} }, true},
		{"sends can be looked up", true, func(c *canvas, f *fuse) Sender { return mortalAlbum{mortalCanvas{c, f}} }, false},
		{"nothing is known of sends", false, func(c *canvas, f *fuse) Sender { return mortalCanvas{c, f} }, false},
	} {
		for _, deaf := range []bool{false, true} {
			for n, died := 1, true; died; n++ {
				name := fmt.Sprintf("%s, killed after %d effects, deaf %v", kind.name, n, deaf)
				synctest.Test(t, func(t *testing.T) {
					pad, rows, drafts := newCanvas(kind.keys), newMemory(), newShelf()
					f := &fuse{left: n, deaf: deaf}
					life(t, mortalRows{rows, f}, mortalShelf{drafts, f}, kind.wrap(pad, f), rows, f, answer)
					died = f.dead
					alive := &fuse{left: -1}
					life(t, mortalRows{rows, alive}, mortalShelf{drafts, alive}, kind.wrap(pad, alive), rows, alive, answer)
					checkSeen(t, name, kind.strict, pad, first, second)
				})
			}
		}
	}
}

// life is a process: it runs the turn unless that has ended, delivers, and ends.
func life(t *testing.T, rows mailbox.Outbox, shelf mailbox.Drafts, s Sender, table *memory, f *fuse, answer string) {
	d := newLiveOutbox(t, rows, shelf, s)
	d.rows = table
	if len(table.keys) == 0 { // a turn that was lost before its commit is made anew, under another key
		r := answerTo
		r.Key = fmt.Sprintf("t%d/0", f.left)
		v := d.live.Show(r)
		for _, piece := range []string{answer[:10], answer[10:50], answer[50:]} {
			v.Event(delta(piece))
			time.Sleep(1500 * time.Millisecond)
		}
		if happens, _ := f.burn(); happens {
			d.answer(v, r, answer)
		} else {
			v.Over()
		}
	}
	time.Sleep(time.Hour)
	synctest.Wait()
	d.stop()
}

func checkSeen(t *testing.T, name string, strict bool, pad *canvas, first, second string) {
	t.Helper()
	seen := pad.seen()
	if strict {
		if !slices.Equal(seen, []string{first, second}) {
			t.Errorf("%s: people see %q; calls:\n%s", name, seen, strings.Join(pad.calls(), "\n"))
		}
		return
	}
	for _, want := range []string{first, second} {
		plain, marked := 0, 0
		for _, text := range seen {
			switch text {
			case want:
				plain++
			case "(again?) " + want:
				marked++
			}
		}
		if plain > 1 || plain+marked == 0 || marked > 1 {
			t.Errorf("%s: people see %q; calls:\n%s", name, seen, strings.Join(pad.calls(), "\n"))
		}
	}
}
