package frame

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"
)

func TestChangesCheck(t *testing.T) {
	one := func(p string) ChangesBody { return ChangesBody{Added: [][]byte{[]byte(p)}} }
	many := ChangesBody{}
	for range MaxChanges + 1 {
		many.Deleted = append(many.Deleted, []byte(strings.Repeat("x", len(many.Deleted)+1)))
	}
	for _, c := range []struct {
		name string
		body ChangesBody
		ok   bool
	}{
		{"none", ChangesBody{}, true},
		{"a file", one("a/b c/\xff\n"), true},
		{"dots in a name", one("..a/b.."), true},
		{"sorted", ChangesBody{Modified: [][]byte{[]byte("a"), []byte("b")}}, true},
		{"empty", one(""), false},
		{"absolute", one("/etc/passwd"), false},
		{"above", one("../x"), false},
		{"above itself", one(".."), false},
		{"itself", one("."), false},
		{"not clean", one("a/../b"), false},
		{"trailing slash", one("a/"), false},
		{"zero byte", one("a\x00b"), false},
		{"too long", one(strings.Repeat("a", MaxPath+1)), false},
		{"not sorted", ChangesBody{Modified: [][]byte{[]byte("b"), []byte("a")}}, false},
		{"twice", ChangesBody{Deleted: [][]byte{[]byte("a"), []byte("a")}}, false},
		{"too many", many, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := c.body.Check(); (err == nil) != c.ok {
				t.Errorf("got %v", err)
			}
		})
	}
}

// A path that passes stays inside the workspace and fits into a frame.
func FuzzExitBody(f *testing.F) {
	f.Add([]byte(`{"exit_code":0,"wall":1,"cpu":1,"changes":{"added":["YQ=="],"deleted":["Yi9j"],"partial":true}}`))
	f.Add([]byte(`{"exit_code":-1,"signal":9,"wall":1,"cpu":1,"spill":3,"dropped":5,"dropped_err":2,"peak_memory":7,"disk_hit":true}`))
	f.Add([]byte(`{"changes":{"modified":["Li4vYQ=="]}}`))
	f.Fuzz(func(t *testing.T, p []byte) {
		var b ExitBody
		if Decode(p, &b) != nil || b.Changes == nil || b.Changes.Check() != nil {
			return
		}
		for _, list := range [][][]byte{b.Changes.Added, b.Changes.Modified, b.Changes.Deleted} {
			for _, name := range list {
				if !filepath.IsLocal(string(name)) || bytes.IndexByte(name, 0) >= 0 {
					t.Errorf("%q passed", name)
				}
			}
		}
		if again := Encode(b); len(again) > MaxPayload {
			t.Errorf("%d bytes", len(again))
		}
	})
}
