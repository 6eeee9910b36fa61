package sandbox_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/flynnhost/flynn/host/machine"
	"github.com/flynnhost/flynn/host/sandbox"
	"github.com/flynnhost/flynn/host/sandbox/frame"
	"github.com/flynnhost/flynn/host/sandbox/sandboxtest"
)

// noise returns n bytes that no two runs of a test find easy.
func noise(n int64) io.Reader { return io.LimitReader(rand.NewChaCha8([32]byte{7}), n) }

func digest(t testing.TB, r io.Reader) string {
	t.Helper()
	sum := sha256.New()
	if _, err := io.Copy(sum, r); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%x", sum.Sum(nil))
}

// A file larger than the container's memory goes in and comes out, and neither end holds much of it.
func TestLargeFile(t *testing.T) {
	s := open(t)
	const size = 200 << 20 // the container has 128 MiB
	for _, c := range []struct {
		name string
		size int64
	}{{"announced", size}, {"of unknown size", -1}} {
		t.Run(c.name, func(t *testing.T) {
			if err := s.Put(t.Context(), "a/large", noise(size), c.size, 0o600); err != nil {
				t.Fatal(err)
			}
			r, info, err := s.Open(t.Context(), "a/large")
			if err != nil {
				t.Fatal(err)
			}
			if info.Name != "large" || info.Size != size || info.Mode != 0o600 || time.Since(info.Mtime) > time.Hour {
				t.Errorf("it is %+v", info)
			}
			if got, want := digest(t, r), digest(t, noise(size)); got != want {
				t.Errorf("read %s, want %s", got, want)
			}
			if err := errors.Join(r.Close(), s.Remove(t.Context(), "a/large", false)); err != nil {
				t.Error(err)
			}
		})
	}
}

// What goes wrong on the way leaves the old file, and nothing else.
func TestPutFails(t *testing.T) {
	s := open(t)
	shell(t, s, "mkdir d; echo old >d/f")
	broken := errors.New("broken")
	canceled, cancel := context.WithCancel(t.Context())
	for _, c := range []struct {
		name string
		ctx  context.Context
		r    io.Reader
		size int64
		path string
		want error // nil: any
	}{
		{"reader fails", t.Context(), io.MultiReader(noise(1<<20), iotest.ErrReader(broken)), 2 << 20, "d/f", broken},
		{"too short", t.Context(), noise(100), 200, "d/f", nil},
		{"too long", t.Context(), noise(200), 100, "d/f", nil},
		{"given up", canceled, io.MultiReader(noise(1<<20), readerFunc(func(p []byte) (int, error) { cancel(); return len(p), nil })), -1, "d/f", context.Canceled},
		{"folder", t.Context(), noise(10 << 20), -1, "d", machine.ErrNotRegular},
		{"outside", t.Context(), noise(10), -1, "../f", machine.ErrOutside},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := s.Put(c.ctx, c.path, c.r, c.size, 0o644)
			if err == nil || c.want != nil && !errors.Is(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			}
			if got := shell(t, s, "cat d/f; ls -A . d"); got != "old\n.:\nd\n\nd:\nf\n" {
				t.Errorf("left %q", got)
			}
		})
	}
}

type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// A container that dies in the middle of a write leaves no piece of it.
func TestCrashLeavesNoDraft(t *testing.T) {
	m, config := sandboxtest.Engine(t).Manager(t)
	s := get(t, m, "chat:1", config.Spec)
	second := false
	err := s.Put(t.Context(), "f", io.MultiReader(noise(1<<20), readerFunc(func([]byte) (int, error) {
		if second {
			return 0, io.EOF
		}
		second = true
		return 0, m.Destroy(context.WithoutCancel(t.Context()), "chat:1")
	})), -1, 0)
	if !errors.Is(err, machine.ErrUnavailable) {
		t.Errorf("put: %v", err)
	}
	if got := shell(t, get(t, m, "chat:1", config.Spec), "ls -A"); got != "" {
		t.Errorf("left %q", got)
	}
}

// Many files that nobody reads on hold up neither each other nor anything else.
func TestIdleStreamsHoldNothingUp(t *testing.T) {
	s := open(t)
	if err := s.Put(t.Context(), "f", noise(4<<20), -1, 0); err != nil {
		t.Fatal(err)
	}
	var idle []io.ReadCloser
	for range 20 {
		r, _, err := s.Open(t.Context(), "f")
		if err != nil {
			t.Fatal(err)
		}
		idle = append(idle, r)
	}
	if got := shell(t, s, "echo still here"); got != "still here\n" {
		t.Errorf("printed %q", got)
	}
	if _, size, err := s.ReadFile(t.Context(), "f", 0, 1); err != nil || size != 4<<20 {
		t.Errorf("size %d (%v)", size, err)
	}
	if err := s.WriteFile(t.Context(), "g", make([]byte, 1<<20), 0); err != nil {
		t.Error(err)
	}
	for _, r := range idle[1:] {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
		if _, err := r.Read(make([]byte, 1)); !errors.Is(err, fs.ErrClosed) {
			t.Errorf("read after close: %v", err)
		}
	}
	if got, want := digest(t, idle[0]), digest(t, noise(4<<20)); got != want {
		t.Error("the one that is read in the end differs")
	}
	if err := idle[0].Close(); err != nil {
		t.Error(err)
	}
}

// A file that changes while it is read ends where it ended at first, or says that it did not.
func TestFileChangesWhileRead(t *testing.T) {
	s := open(t)
	for _, c := range []struct {
		name, script string
		want         error
	}{{"grows", "echo more >>f", nil}, {"shrinks", ": >f", io.ErrUnexpectedEOF}, {"is replaced", "echo x >g; mv g f", nil}} {
		t.Run(c.name, func(t *testing.T) {
			const size = 8 << 20
			if err := s.Put(t.Context(), "f", noise(size), size, 0); err != nil {
				t.Fatal(err)
			}
			r, _, err := s.Open(t.Context(), "f")
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			shell(t, s, c.script)
			n, err := io.Copy(io.Discard, r)
			if !errors.Is(err, c.want) || err == nil && n != size {
				t.Errorf("read %d bytes, error %v, want %v", n, err, c.want)
			}
		})
	}
}

func TestStatAndRemove(t *testing.T) {
	s := open(t)
	shell(t, s, "mkdir -p d/e/f; echo 123 >d/e/f/g; ln -s d/e l; ln -s /etc out; mkfifo p; ln -s d full; chmod 750 d")
	for _, c := range []struct {
		path string
		mode fs.FileMode
		size int64
		want error
	}{
		{"d", fs.ModeDir | 0o750, -1, nil}, {"l/f/g", 0o644, 4, nil}, {"", fs.ModeDir | 0o700, -1, nil}, {"p", fs.ModeNamedPipe | 0o644, 0, nil},
		{"out", 0, 0, machine.ErrOutside}, {"nosuch", 0, 0, machine.ErrNotFound}, {"..", 0, 0, machine.ErrOutside},
	} {
		info, err := s.Stat(t.Context(), c.path)
		if !errors.Is(err, c.want) || err == nil && (info.Mode != c.mode || c.size >= 0 && info.Size != c.size) {
			t.Errorf("stat %s: %+v (%v), want %v of %d bytes, %v", c.path, info, err, c.mode, c.size, c.want)
		}
	}
	for _, c := range []struct {
		path string
		all  bool
		ok   bool
	}{
		{"d", false, false}, {"", true, false}, {"..", true, false}, {"out/passwd", false, false}, {"nosuch", false, false},
		{"out", false, true}, {"p", false, true}, {"l/f/g", false, true}, {"l/f", false, true}, {"full", true, true}, {"d", true, true},
	} {
		if err := s.Remove(t.Context(), c.path, c.all); (err == nil) != c.ok {
			t.Errorf("remove %q, all %v: %v", c.path, c.all, err)
		}
	}
	if got := shell(t, s, "ls -A"); got != "l\n" {
		t.Errorf("left %q", got)
	}
}

// What a supervisor that has been taken over says about files is checked before it is believed.
func TestHostileFiles(t *testing.T) {
	entry := func(id uint32, e frame.Entry) frame.Frame {
		return frame.Frame{Type: frame.Data, Stream: frame.Err, ID: id, Payload: frame.Encode(e)}
	}
	file := frame.Entry{Name: []byte("f"), Size: 3, Mode: unix.S_IFREG}
	bytes3 := func(id uint32) frame.Frame {
		return frame.Frame{Type: frame.Data, Stream: frame.Out, ID: id, Payload: []byte("abc")}
	}
	reply := func(id uint32) frame.Frame {
		return frame.Frame{Type: frame.Reply, ID: id, Payload: frame.Encode(frame.ReadReply{Size: 3})}
	}
	for name, attack := range map[string]func(c *fakeContainer, id uint32){
		"no entry":       func(c *fakeContainer, id uint32) { c.send(bytes3(id), reply(id)) },
		"negative size":  func(c *fakeContainer, id uint32) { c.send(entry(id, frame.Entry{Size: -1}), reply(id)) },
		"entry is noise": func(c *fakeContainer, id uint32) { f := bytes3(id); f.Stream = frame.Err; c.send(f, reply(id)) },
		"too many bytes": func(c *fakeContainer, id uint32) { c.send(entry(id, file), bytes3(id), bytes3(id), reply(id)) },
		"endless": func(c *fakeContainer, id uint32) {
			for c.send(entry(id, file)); c.send(bytes3(id)); {
			}
		},
		"verdict": func(c *fakeContainer, id uint32) {
			c.send(frame.Frame{Type: frame.Exit, ID: id, Payload: frame.Encode(frame.ExitBody{})})
		},
		"hangs up": func(c *fakeContainer, id uint32) { c.send(entry(id, file)) },
	} {
		t.Run(name, func(t *testing.T) {
			defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
			d := &fakeDriver{play: func(c *fakeContainer) {
				defer c.conn.Close()
				if id := c.await(frame.Read); id != 0 {
					attack(c, id)
				}
			}}
			m := fakeManager(t, d)
			s, err := m.Get(t.Context(), "s", "default", sandbox.Spec{Image: "x"})
			if err != nil {
				t.Fatal(err)
			}
			r, _, err := s.Open(t.Context(), "f")
			if err == nil {
				_, err = io.Copy(io.Discard, r)
				r.Close()
			}
			if !errors.Is(err, machine.ErrUnavailable) {
				t.Errorf("got %v", err)
			}
			if err := m.DestroyAll(t.Context()); err != nil || d.removed != 1 {
				t.Errorf("removed %d times (%v)", d.removed, err)
			}
		})
	}
}

// A supervisor that answers nothing costs the container, but one whose host takes its time costs nothing.
func TestOnlyStandstillEndsAStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &fakeDriver{play: func(c *fakeContainer) {
			id := c.await(frame.Read)
			c.send(frame.Frame{Type: frame.Data, Stream: frame.Err, ID: id, Payload: frame.Encode(frame.Entry{Size: 10, Mode: unix.S_IFREG})})
			for range 5 {
				time.Sleep(50 * time.Second) // in the bubble's time: slow, but it moves
				c.send(frame.Frame{Type: frame.Data, Stream: frame.Out, ID: id, Payload: []byte("x")})
			}
			_, _ = io.Copy(io.Discard, c.conn)
		}}
		m := fakeManager(t, d)
		s, err := m.Get(t.Context(), "s", "default", sandbox.Spec{Image: "x"})
		if err != nil {
			t.Fatal(err)
		}
		r, _, err := s.Open(t.Context(), "f")
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		got, err := io.ReadAll(r)
		if !errors.Is(err, machine.ErrUnavailable) || !bytes.Equal(got, []byte("xxxxx")) {
			t.Errorf("read %q, error %v", got, err)
		}
		if took := time.Since(began); took != 5*50*time.Second+time.Minute {
			t.Errorf("took %v", took)
		}
		r.Close()
		if err := m.DestroyAll(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
