package workspace

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// among is a process with others.
type among struct{ only }

func (among) Others() (map[string]bool, error) { return map[string]bool{"other": true}, nil }

// A session has a slot if nobody else is where the slot would be out of place, and what it had before is in it.
func TestClaim(t *testing.T) {
	for _, c := range []struct {
		name           string
		host           Host
		before, second bool // there is a workspace, and somebody else uses it
		want           error
	}{
		{"new session", only("h"), false, false, nil},
		{"new session beside another process", among{"h"}, false, false, nil},
		{"new session that two use", only("h"), false, true, nil},
		{"session that returns", only("h"), true, false, nil},
		{"session that returns to two", only("h"), true, true, ErrStays},
		{"session that returns beside another process", among{"h"}, true, false, ErrStays},
	} {
		t.Run(c.name, func(t *testing.T) {
			holds := NewHolds()
			r := New(Config{Path: t.TempDir(), Instance: "i", Host: c.host, Holds: holds})
			slot, _, err := r.Slot("0123456789abcdef")
			if err != nil {
				t.Fatal(err)
			}
			mounted, err := os.Stat(slot)
			if err != nil {
				t.Fatal(err)
			}
			defer holds.Enter("s")()
			if c.second {
				defer holds.Enter("s")()
			}
			if c.before {
				if _, _, err := r.Prepare("s"); err != nil {
					t.Fatal(err)
				}
				if err := plant(filepath.Join(r.Path("s"), "f"), "kept"); err != nil {
					t.Fatal(err)
				}
			}
			if err := r.Claim(slot, "s"); !errors.Is(err, c.want) {
				t.Fatalf("got %v, want %v", err, c.want)
			}
			now, err := os.Stat(r.Path("s"))
			if err != nil || os.SameFile(now, mounted) != (c.want == nil) {
				t.Errorf("the workspace is the slot's folder: %v (%v)", os.SameFile(now, mounted), err)
			}
			if text, err := os.ReadFile(filepath.Join(r.Path("s"), "f")); c.before && string(text) != "kept" {
				t.Errorf("the workspace holds %q (%v)", text, err)
			}
		})
	}
}
