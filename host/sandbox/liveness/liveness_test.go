package liveness_test

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/flynnhost/flynn/host/sandbox/liveness"
)

func join(t *testing.T, folder string) *liveness.Member {
	t.Helper()
	m, err := liveness.Join(folder)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Leave)
	return m
}

func others(t *testing.T, m *liveness.Member) []string {
	t.Helper()
	alive, err := m.Others()
	if err != nil {
		t.Fatal(err)
	}
	return slices.Sorted(maps.Keys(alive))
}

func TestMembersSeeEachOther(t *testing.T) {
	folder := t.TempDir()
	a := join(t, folder)
	if got := others(t, a); len(got) != 0 {
		t.Errorf("alone with %q", got)
	}
	b := join(t, folder)
	if got := others(t, a); !slices.Equal(got, []string{b.ID()}) {
		t.Errorf("the first sees %q, want %q", got, b.ID())
	}
	if got := others(t, b); !slices.Equal(got, []string{a.ID()}) {
		t.Errorf("the second sees %q, want %q", got, a.ID())
	}
	b.Leave()
	if got := others(t, a); len(got) != 0 {
		t.Errorf("%q are there after they have left", got)
	}
}

// The mark of a process that was killed is there still, and nobody has it locked.
func TestMarkOfTheDeadIsRemoved(t *testing.T) {
	folder := t.TempDir()
	mark := filepath.Join(folder, "host-0123abcd.lock")
	if err := os.WriteFile(mark, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := others(t, join(t, folder)); len(got) != 0 {
		t.Errorf("%q are said to live", got)
	}
	if _, err := os.Lstat(mark); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the mark stays (%v)", err)
	}
}
