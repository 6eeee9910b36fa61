package sandbox_test

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/flynnhost/flynn/host/sandbox/machine"
)

func TestPeakMemory(t *testing.T) {
	s := open(t)
	for _, c := range []struct {
		name, script string
		least, most  int64
	}{
		{"small", "true", 0, 16 << 20},
		{"large", "dd if=/dev/zero of=/dev/null bs=50M count=1 2>/dev/null", 50 << 20, 60 << 20},
		{"a grandchild", "sh -c 'dd if=/dev/zero of=/dev/null bs=40M count=1 2>/dev/null; true'; true", 40 << 20, 50 << 20},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := run(t, s, machine.Command{Script: c.script})
			if r.PeakMemory < c.least || r.PeakMemory > c.most || r.CPU <= 0 {
				t.Errorf("peak %d, CPU %v", r.PeakMemory, r.CPU)
			}
		})
	}
}

func TestChanges(t *testing.T) {
	s := open(t)
	shell(t, s, "mkdir -p d/e; echo 1 >keep; echo 1 >edit; echo 1 >gone; echo 1 >d/e/deep; ln -s keep link; touch -d @1000 old")
	for _, c := range []struct {
		name, script string
		want         machine.Changes
	}{
		{"nothing", "cat keep", machine.Changes{}},
		{"each kind", "echo 2 >edit; rm gone; echo 3 >d/new; ln -s x d/l", machine.Changes{
			Added: []string{"d/l", "d/new"}, Modified: []string{"edit"}, Deleted: []string{"gone"},
		}},
		{"same size and time", "cp -p old copy; printf '' >old; touch -d @1000 old; rm copy", machine.Changes{Modified: []string{"old"}}},
		{"link turned", "ln -sf edit link", machine.Changes{Modified: []string{"link"}}},
		{"folder moved", "mv d f", machine.Changes{
			Added: []string{"f/e/deep", "f/l", "f/new"}, Deleted: []string{"d/e/deep", "d/l", "d/new"},
		}},
		{"not the state folder", "mkdir -p .flynn; echo 1 >.flynn/x", machine.Changes{}},
		{"no folders, FIFOs, things outside", "mkdir empty; mkfifo fifo; echo 1 >/tmp/x; ln -s / root; rm root", machine.Changes{}},
		{"names that are no text", `touch "$(printf 'a\377\nb')"`, machine.Changes{Added: []string{"a\xff\nb"}}},
		{"what is killed", "echo 1 >late; (sleep 0.01; rm late; sleep 100) & while [ -e late ]; do sleep 0.01; done", machine.Changes{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := run(t, s, machine.Command{Script: c.script, Changes: true})
			if r.Changes == nil {
				t.Fatalf("no changes in %+v", r)
			}
			if diff := cmp.Diff(c.want, *r.Changes, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("changes (-want +got):\n%s", diff)
			}
		})
	}
	if r := run(t, s, machine.Command{Script: "echo 1 >unasked"}); r.Changes != nil {
		t.Errorf("unasked: %+v", r.Changes)
	}
	p := start(t, s, machine.Command{Script: "echo 1 >behind", Changes: true})
	ended, err := s.Wait(t.Context(), p.ID)
	if err != nil || ended.Result.Changes == nil || !cmp.Equal(ended.Result.Changes.Added, []string{"behind"}) {
		t.Errorf("in the background: %+v (%v)", ended.Result, err)
	}
}

// More than can be told is told to be more.
func TestManyChanges(t *testing.T) {
	t.Parallel()
	s := open(t)
	r := run(t, s, machine.Command{Script: "seq 1 1200 | xargs touch", Changes: true})
	if r.Changes == nil || len(r.Changes.Added) != 1000 || !r.Changes.Partial || r.Changes.Added[0] != "1" {
		t.Errorf("got %d added", len(r.Changes.Added))
	}
	long := strings.Repeat("x", 200)
	r = run(t, s, machine.Command{Script: fmt.Sprintf("rm -f *; for i in $(seq 1 900); do : >%s$i; done", long), Changes: true})
	if r.Changes == nil || len(r.Changes.Added) < 400 || len(r.Changes.Added) >= 900 || !r.Changes.Partial {
		t.Errorf("got %d added, partial %v", len(r.Changes.Added), r.Changes.Partial)
	}
	deep := strings.Repeat("d/", 150)
	r = run(t, s, machine.Command{Script: "mkdir -p " + deep + "; echo 1 >" + deep + "f", Changes: true})
	if r.Changes == nil || !r.Changes.Partial {
		t.Errorf("below 150 folders: %+v", r.Changes)
	}
}

func TestSpill(t *testing.T) {
	t.Parallel()
	s := open(t)
	read := func(name string) string {
		data, size, err := s.ReadFile(t.Context(), name, 0, 8<<20)
		if err != nil || int64(len(data)) != size {
			t.Fatalf("read %s: %v, %d of %d bytes", name, err, len(data), size)
		}
		return string(data)
	}
	t.Run("little output", func(t *testing.T) {
		r := run(t, s, machine.Command{Script: "echo 1; echo 2 >&2", Spill: true})
		if string(r.Stdout) != "1\n" || string(r.Stderr) != "2\n" || r.Spill != "" || r.Dropped != 0 {
			t.Errorf("got %+v", r)
		}
	})
	t.Run("small cap", func(t *testing.T) {
		// The one stream has come out of the sandbox before the other begins.
		var once sync.Once
		r := run(t, s, machine.Command{
			Script: "printf 123456789; until [ -e go ]; do sleep 0.01; done; printf abcdef >&2", MaxOutput: 4, Spill: true,
			Progress: func(machine.Stream, []byte) {
				once.Do(func() {
					if err := s.WriteFile(t.Context(), "go", nil, 0); err != nil {
						t.Error(err)
					}
				})
			},
		})
		if want := "12\n[5 bytes left out here; all of it is in " + r.Spill + "]\n89"; string(r.Stdout) != want {
			t.Errorf("stdout %q, want %q", r.Stdout, want)
		}
		if want := "ab\n[2 bytes left out here; all of it is in " + r.Spill + "]\nef"; string(r.Stderr) != want {
			t.Errorf("stderr %q, want %q", r.Stderr, want)
		}
		if got := read(r.Spill); got != "123456789abcdef" || r.Dropped != 7 {
			t.Errorf("spilled %q, dropped %d", got, r.Dropped)
		}
	})
	t.Run("large", func(t *testing.T) {
		var pieces bytes.Buffer
		r := run(t, s, machine.Command{
			Script: "seq 1 200000", Spill: true, MaxOutput: 300 << 10,
			Progress: func(_ machine.Stream, p []byte) { pieces.Write(p) },
		})
		var all strings.Builder
		for i := range 200000 {
			fmt.Fprintln(&all, i+1)
		}
		if got := read(r.Spill); got != all.String() {
			t.Errorf("spilled %d bytes of %d", len(got), all.Len())
		}
		head, tail, ok := strings.Cut(string(r.Stdout), fmt.Sprintf("\n[%d bytes left out here; all of it is in %s]\n", r.Dropped, r.Spill))
		if !ok || !strings.HasPrefix(all.String(), head) || !strings.HasSuffix(all.String(), tail) ||
			len(head)+len(tail)+int(r.Dropped) != all.Len() || len(head)+len(tail) != 300<<10 || len(tail) != 128<<10 {
			t.Errorf("marked %v, head %d, tail %d, dropped %d of %d", ok, len(head), len(tail), r.Dropped, all.Len())
		}
		if pieces.String() != head+tail {
			t.Errorf("progress had %d bytes", pieces.Len())
		}
	})
	t.Run("kept in memory only", func(t *testing.T) {
		before := shell(t, s, "ls .flynn/output")
		if r := run(t, s, machine.Command{Script: "seq 1 20000", Spill: true}); r.Spill != "" || r.Dropped != 0 {
			t.Errorf("got %+v", r)
		}
		if after := shell(t, s, "ls .flynn/output"); after != before {
			t.Errorf("folder had %q, has %q", before, after)
		}
	})
	t.Run("owner", func(t *testing.T) {
		if got := shell(t, s, "stat -c %u:%a .flynn/output/*.log | sort -u"); got != "1000:644\n" {
			t.Errorf("got %q", got)
		}
	})
	t.Run("oldest go first", func(t *testing.T) {
		shell(t, s, "cd .flynn/output; rm -f *; for i in 1 2 3 4 5; do truncate -s 48M $i.log; done; mkdir 0.log; ln -s /etc/passwd 6.log")
		r := run(t, s, machine.Command{Script: "seq 1 100", MaxOutput: 10, Spill: true})
		if got := shell(t, s, "ls .flynn/output | tr '\\n' ' '"); r.Spill != ".flynn/output/7.log" || got != "0.log 2.log 3.log 4.log 5.log 6.log 7.log " {
			t.Errorf("folder has %q, spilled to %s", got, r.Spill)
		}
	})
	t.Run("the last number is taken", func(t *testing.T) {
		shell(t, s, "cd .flynn/output; rm -rf *; echo > 1.log; truncate -s 8E 1073741824.log 1073741823.log 2>/dev/null || echo > 1073741824.log")
		r := run(t, s, machine.Command{Script: "seq 1 100", MaxOutput: 10, Spill: true})
		if r.Spill != ".flynn/output/2.log" || !strings.Contains(read(r.Spill), "\n99\n100\n") {
			t.Errorf("spilled to %s, exit code %d", r.Spill, r.ExitCode)
		}
	})
	t.Run("no link is followed", func(t *testing.T) {
		shell(t, s, "rm -rf .flynn; mkdir elsewhere; ln -s elsewhere .flynn")
		r := run(t, s, machine.Command{Script: "seq 1 100", MaxOutput: 10, Spill: true})
		if r.Spill != "" || !strings.Contains(string(r.Stdout), "bytes left out here]") {
			t.Errorf("got %+v, %q", r, r.Stdout)
		}
		if got := shell(t, s, "ls elsewhere"); got != "" {
			t.Errorf("found %q", got)
		}
	})
}
