package sqlite

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
)

// TestWhoComesMeanwhileIsCommittedToo: a write that comes while a group is written is flushed with it, in its order, and has its own error.
func TestWhoComesMeanwhileIsCommittedToo(t *testing.T) {
	bug := errors.New("a bug")
	for _, c := range []struct {
		name string
		fate error // of the second write
	}{{"both succeed", nil}, {"the second fails", bug}} {
		t.Run(c.name, func(t *testing.T) {
			s, err := Open(t.Context(), t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			var second *op
			var wrote, flushed bool
			err = s.writer.write(context.Background(), func(w *writer) (err error) {
				if second == nil {
					if second, err = w.enqueue(func(w *writer) error {
						wrote = true
						return errors.Join(w.exec("INSERT INTO extractions (turn) VALUES ('second')"), c.fate)
					}); err != nil {
						return err
					}
				}
				w.over = append(w.over, func() { flushed = wrote })
				return w.exec("INSERT INTO extractions (turn) VALUES ('first')")
			})
			if err != nil || !flushed {
				t.Fatalf("first write: %v; the second was flushed with it: %v", err, flushed)
			}
			if err := second.wait(t.Context()); !errors.Is(err, c.fate) {
				t.Errorf("second write: %v, want %v", err, c.fate)
			}
			there, err := list(t.Context(), s.read, scanText[string], "SELECT turn FROM extractions ORDER BY turn")
			want := 2
			if c.fate != nil {
				want = 1
			}
			if err != nil || len(there) != want || there[0] != "first" {
				t.Errorf("the store has %q (%v), want %d", there, err, want)
			}
		})
	}
}

// TestAFloodWaitsForTheNextGroup: who began a group is not kept waiting for ever by those who come meanwhile.
func TestAFloodWaitsForTheNextGroup(t *testing.T) {
	s, err := Open(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var left atomic.Int64
	left.Store(3 * groupMax)
	done := make(chan struct{})
	var another func(w *writer) error
	another = func(w *writer) error {
		if left.Add(-1) == 0 {
			close(done)
			return nil
		}
		_, err := w.enqueue(another)
		return err
	}
	if err := s.writer.write(context.Background(), another); err != nil {
		t.Fatal(err)
	}
	if n := left.Load(); n > 2*groupMax {
		t.Errorf("%d writes are left: nothing was gathered", n)
	}
	<-done
}
