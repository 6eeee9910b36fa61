package sqlstore_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/flynnhost/flynn/host/store"
	"github.com/flynnhost/flynn/host/store/sqlite"
	"github.com/flynnhost/flynn/host/store/sqlstore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestWhoComesMeanwhileIsCommittedToo: a write that comes while a group is written is flushed with it, in its order, and has its own error.
func TestWhoComesMeanwhileIsCommittedToo(t *testing.T) {
	bug := errors.New("a bug")
	for _, c := range []struct {
		name string
		fate error // of the second write
	}{{"both succeed", nil}, {"the second fails", bug}} {
		t.Run(c.name, func(t *testing.T) {
			s, err := sqlite.Open(t.Context(), t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			var second func(context.Context) error
			var wrote, flushed bool
			err = s.Write(context.Background(), func(w sqlstore.Session) (err error) {
				if second == nil {
					if second, err = s.Enqueue(func(w sqlstore.Session) error {
						wrote = true
						return errors.Join(w.Exec("INSERT INTO extractions (turn) VALUES ('second')"), c.fate)
					}); err != nil {
						return err
					}
				}
				s.Over(func() { flushed = wrote })
				return w.Exec("INSERT INTO extractions (turn) VALUES ('first')")
			})
			if err != nil || !flushed {
				t.Fatalf("first write: %v; the second was flushed with it: %v", err, flushed)
			}
			if err := second(t.Context()); !errors.Is(err, c.fate) {
				t.Errorf("second write: %v, want %v", err, c.fate)
			}
			var there []string
			err = s.Write(t.Context(), func(w sqlstore.Session) error {
				rows, err := w.Query("SELECT turn FROM extractions ORDER BY turn")
				if err != nil {
					return err
				}
				defer rows.Close()
				for rows.Next() {
					there = append(there, "")
					if err := rows.Scan(&there[len(there)-1]); err != nil {
						return err
					}
				}
				return rows.Err()
			})
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
	s, err := sqlite.Open(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var left atomic.Int64
	left.Store(3 * sqlstore.GroupMax)
	done := make(chan struct{})
	var another func(sqlstore.Session) error
	another = func(sqlstore.Session) error {
		if left.Add(-1) == 0 {
			close(done)
			return nil
		}
		_, err := s.Enqueue(another)
		return err
	}
	if err := s.Write(context.Background(), another); err != nil {
		t.Fatal(err)
	}
	if n := left.Load(); n > 2*sqlstore.GroupMax {
		t.Errorf("%d writes are left: nothing was gathered", n)
	}
	<-done
}

// TestALeaseIsRenewedBeforeAllElse: with a slow database, the lease of a host must not run out because much waits to be written.
func TestALeaseIsRenewedBeforeAllElse(t *testing.T) {
	s, err := sqlite.Open(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	const all = 100
	var wrote atomic.Int64
	var last func(context.Context) error
	renewed := make(chan int64, 1)
	err = s.Write(context.Background(), func(sqlstore.Session) (err error) {
		for range all {
			if last, err = s.Enqueue(func(sqlstore.Session) error {
				if wrote.Add(1) == 1 {
					go func() {
						if _, err := s.Renew(context.Background(), store.Lease{Term: time.Minute}); err != nil {
							t.Error(err)
						}
						renewed <- wrote.Load()
					}()
				}
				time.Sleep(20 * time.Millisecond)
				return nil
			}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if before := <-renewed; before > all/2 {
		t.Errorf("%d of %d writes came first", before, all)
	}
	if err := last(t.Context()); err != nil || wrote.Load() != all {
		t.Errorf("%d of %d writes were made, %v", wrote.Load(), all, err)
	}
}
