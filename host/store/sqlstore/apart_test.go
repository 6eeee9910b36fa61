package sqlstore_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/flynnhost/flynn/host/agent/turnlog"
	"github.com/flynnhost/flynn/host/store"
	"github.com/flynnhost/flynn/host/store/sqlite"
	"github.com/flynnhost/flynn/host/store/sqlstore"
)

// TestAFailedWriteIsRolledBackAlone puts an op that fails half way into one group with others.
func TestAFailedWriteIsRolledBackAlone(t *testing.T) {
	s, err := sqlite.Open(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	note := func(key string, failure error) func(sqlstore.Session) error {
		return func(w sqlstore.Session) error {
			if err := w.Exec("INSERT INTO notes (agent, person, key, text, sender, turn, labels, updated) VALUES ('a', '', ?, 't', 's', '', '[]', 0)", key); err != nil {
				return err
			}
			return failure
		}
	}
	broken := errors.New("half way")
	for _, c := range []struct {
		name  string
		fails []bool
	}{
		{"none", []bool{false, false, false}}, {"first", []bool{true, false, false}}, {"middle", []bool{false, true, false}},
		{"last", []bool{false, false, true}}, {"two", []bool{true, false, true}}, {"all", []bool{true, true, true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var group []func(sqlstore.Session) error
			for i, fails := range c.fails {
				var err error
				if fails {
					err = broken
				}
				group = append(group, note(fmt.Sprint(c.name, i), err))
			}
			waits := s.Group(group)
			for i, fails := range c.fails {
				if err := waits[i](t.Context()); fails != errors.Is(err, broken) || !fails && err != nil {
					t.Errorf("op %d: %v", i, err)
				}
				_, err := s.ReadNote(t.Context(), "a", "", fmt.Sprint(c.name, i))
				if fails != errors.Is(err, store.ErrNotFound) {
					t.Errorf("note %d: %v", i, err)
				}
			}
		})
	}
}

// A bug in one write is an error of that one; the next finds no transaction open.
func TestAPanicInAWriteIsItsError(t *testing.T) {
	s, err := sqlite.Open(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for name, ctx := range map[string]context.Context{"committed by the caller": context.Background(), "committed by the writer": t.Context()} {
		err := s.Write(ctx, func(sqlstore.Session) error { panic("a bug") })
		if err == nil || !strings.Contains(err.Error(), "a bug") {
			t.Errorf("%s: error is %v", name, err)
		}
		if err := s.SetScope(ctx, turnlog.Scope{Key: "irc:ann", Epoch: 2}); err != nil {
			t.Errorf("%s: the next write: %v", name, err)
		}
	}
}
