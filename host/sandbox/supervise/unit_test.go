//go:build linux

package supervise

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/flynnhost/flynn/host/sandbox/frame"
)

func TestParseStatus(t *testing.T) {
	const status = "Name:\tsleep\nState:\tS (sleeping)\nPid:\t9\nGroups:\t1000 40007 \nNSpid:\t9\nNSpgid:\t8\nNSsid:\t7\n"
	for _, c := range []struct {
		name, status string
		tag          int
		want, dead   bool
	}{
		{"tagged", status, 40007, true, false},
		{"other tag", status, 40008, false, false},
		{"part of a number", status, 4000, false, false},
		{"zombie", "State:\tZ (zombie)\nThreads:\t1\nGroups:\t40007\nNSpgid:\t8\n", 40007, true, true},
		{"only its first thread has ended", "State:\tZ (zombie)\nThreads:\t2\nGroups:\t40007\nNSpgid:\t8\n", 40007, true, false},
		{"no groups", "State:\tR\nGroups:\t \n", 40007, false, false},
		{"name that looks like a line", "Name:\tGroups:\t40007\nState:\tS\nGroups:\t1\n", 40007, false, false},
		{"gone", "", 40007, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, ok := parseStatus([]byte(c.status), 9, tagIs(c.tag))
			if ok != c.want || ok && (p.pid != 9 || p.group != 8 || p.dead != c.dead) {
				t.Errorf("got %+v, %v", p, ok)
			}
		})
	}
}

func TestInterfaces(t *testing.T) {
	const titles = "Inter-|   Receive                |  Transmit\n face |bytes    packets errs drop |bytes    packets\n"
	for _, c := range []struct{ name, devices, want string }{
		{"network off", titles + "    lo:       0       0    0    0     0       0\n", "[lo]"},
		{"bridge", titles + "    lo: 1 2\n  eth0: 3 4\n", "[lo eth0]"},
		{"long numbers touch the name", titles + "eth0:98775794000 384786\n", "[eth0]"},
		{"none", titles, "[]"},
		{"unreadable", "", "[]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := fmt.Sprint(interfaces([]byte(c.devices))); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

func TestCounter(t *testing.T) {
	for _, c := range []struct {
		name, content, counter string
		want                   uint64
	}{
		{"version 2", "low 0\nhigh 1\nmax 2\noom 3\noom_kill 4\noom_group_kill 5\n", "oom_kill ", 4},
		{"version 1", "oom_kill_disable 0\nunder_oom 0\noom_kill 7\n", "oom_kill ", 7},
		{"pids", "max 12\n", "max ", 12},
		{"absent", "low 0\n", "oom_kill ", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "events")
			if err := os.WriteFile(path, []byte(c.content), 0o600); err != nil {
				t.Fatal(err)
			}
			f, err := os.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if got := counter(int(f.Fd()), c.counter); got != c.want {
				t.Errorf("got %d", got)
			}
		})
	}
	if counter(-1, "x") != 0 {
		t.Error("a missing counter must read 0")
	}
}

func TestDescribe(t *testing.T) {
	for err, want := range map[error]frame.Code{
		unix.ENOENT: frame.NotFound, unix.EXDEV: frame.Outside, unix.ELOOP: frame.Outside,
		unix.EISDIR: frame.NotRegular, unix.EACCES: frame.Internal, errNoRoom: frame.NoProcess,
	} {
		if got := describe(err).Code; got != want {
			t.Errorf("%v: got %s, want %s", err, got, want)
		}
	}
}

func TestRunRefusesToBeAnywhereElse(t *testing.T) {
	for _, args := range [][]string{nil, {"nonce"}, {"a", "b"}} {
		if err := Run(args); err == nil {
			t.Errorf("ran with %q as process %d", args, os.Getpid())
		}
	}
}
