//go:build linux

package supervise

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/flynnhost/flynn/host/sandbox/frame"
	"github.com/flynnhost/flynn/sdk/need"
)

// An identity that others could read, or have made, is not taken.
func TestIdentityIsOnlyRoots(t *testing.T) {
	if os.Geteuid() != 0 {
		need.Part(t, "namespace", errors.New("files of root need root"))
	}
	dir := t.TempDir()
	for name, c := range map[string]struct {
		mode  os.FileMode
		owner int
		size  int
		good  bool
	}{
		"root's":           {0o400, 0, 100, true},
		"writable":         {0o600, 0, 100, true},
		"empty":            {0o400, 0, 0, true}, // refused as an identity
		"readable by all":  {0o444, 0, 100, false},
		"by its group":     {0o440, 0, 100, false},
		"the workload's":   {0o400, 1000, 100, false},
		"longer than that": {0o400, 0, maxIdentity + 1, false},
	} {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.WriteFile(path, make([]byte, c.size), 0o600), os.Chmod(path, c.mode), os.Chown(path, c.owner, 0)); err != nil {
			t.Fatal(err)
		}
		if p, err := readIdentity(path); (err == nil) != c.good || c.good && len(p) != c.size {
			t.Errorf("%s: %d bytes, %v", name, len(p), err)
		}
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink("root's", link); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{link, dir, filepath.Join(dir, "missing")} {
		if _, err := readIdentity(path); err == nil {
			t.Errorf("%s was taken", path)
		}
	}
}

// A host proves that it knows the secret, and that no host with its epoch or a higher one came before.
func TestReturningHosts(t *testing.T) {
	secret := bytes.Repeat([]byte{7}, frame.SecretSize)
	for name, c := range map[string]struct {
		epoch  uint64
		secret []byte
		late   uint64 // the epoch that the proof is about, if it is another one
		want   error
	}{
		"the next":         {epoch: 6, secret: secret},
		"a later one":      {epoch: 1<<64 - 1, secret: secret},
		"the same epoch":   {epoch: 5, secret: secret, want: errStranger},
		"an older one":     {epoch: 4, secret: secret, want: errStranger},
		"no epoch":         {secret: secret, want: errStranger},
		"another secret":   {epoch: 6, secret: bytes.Repeat([]byte{8}, frame.SecretSize), want: errStranger},
		"a changed epoch":  {epoch: 6, secret: secret, late: 4, want: errStranger},
		"no secret at all": {epoch: 6, want: errStranger},
	} {
		t.Run(name, func(t *testing.T) {
			host, inside := net.Pipe()
			defer host.Close()
			s := &supervisor{epoch: 5, lease: &lease{secret: secret}}
			result := make(chan error, 1)
			go func() { result <- s.prove(inside, frame.NewReader(inside, frame.SupervisorSide)) }()
			out, in := frame.NewWriter(host), frame.NewReader(host, frame.HostSide)
			x := frame.Exchange{Host: frame.AdoptBody{Challenge: bytes.Repeat([]byte{1}, frame.SecretSize), Epoch: c.epoch}}
			_ = out.Send(frame.Frame{Type: frame.Adopt, Payload: frame.Encode(x.Host)})
			f, err := in.Next()
			if err != nil || frame.Decode(f.Payload, &x.Supervisor) != nil || x.Supervisor.Epoch != 5 {
				t.Fatalf("answered %s (%v)", f.Payload, err)
			}
			x.Host.Epoch = cmp.Or(c.late, c.epoch)
			_ = out.Send(frame.Frame{Type: frame.Adopt, Payload: frame.Encode(frame.AdoptBody{Proof: frame.HostSide.Prove(c.secret, x)})})
			want := uint64(5)
			if c.want == nil {
				want = c.epoch
			}
			if err := <-result; !errors.Is(err, c.want) || s.epoch != want {
				t.Errorf("got %v, and epoch %d", err, s.epoch)
			}
		})
	}
}

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
