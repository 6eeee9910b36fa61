package sandbox_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/flynnhost/flynn/host/sandbox"
	"github.com/flynnhost/flynn/host/sandbox/executor"
	"github.com/flynnhost/flynn/host/sandbox/frame"
	"github.com/flynnhost/flynn/host/sandbox/machine"
	"github.com/flynnhost/flynn/host/sandbox/sandboxtest"
	"github.com/flynnhost/flynn/host/sandbox/spec"
)

func spawn(t testing.TB, s *sandbox.Session, script string, terminal ...executor.Size) *executor.Live {
	t.Helper()
	l, err := s.Spawn(t.Context(), machine.Command{Script: script}, terminal...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return l
}

func resultOf(t testing.TB, l *executor.Live) machine.Result {
	t.Helper()
	r, err := l.Wait(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func say(t testing.TB, l *executor.Live, text string) {
	t.Helper()
	if _, err := io.WriteString(l.Stdin, text); err != nil {
		t.Fatal(err)
	}
}

// until reads up to a text.
func until(t testing.TB, r io.Reader, text string) string {
	t.Helper()
	var got []byte
	for one := make([]byte, 1); !bytes.HasSuffix(got, []byte(text)); got = append(got, one...) {
		if _, err := io.ReadFull(r, one); err != nil {
			t.Fatalf("got %q before %v, want %q", got, err, text)
		}
	}
	return string(got)
}

func TestSpawn(t *testing.T) {
	t.Parallel()
	s := open(t)
	t.Run("conversation", func(t *testing.T) {
		l := spawn(t, s, `while read -r line; do echo "got $line"; done; echo end >&2; exit 3`)
		out := bufio.NewReader(l.Stdout)
		for _, word := range []string{"a", "b"} {
			say(t, l, word+"\n")
			if got, err := out.ReadString('\n'); got != "got "+word+"\n" {
				t.Errorf("got %q (%v)", got, err)
			}
		}
		l.Stdin.Close()
		if got, err := io.ReadAll(l.Stderr); string(got) != "end\n" {
			t.Errorf("got %q (%v)", got, err)
		}
		if r := resultOf(t, l); r.ExitCode != 3 || r.Kill != nil || l.PID <= 1 {
			t.Errorf("got %+v, process %d", r, l.PID)
		}
		if _, err := l.Stdin.Write([]byte("x")); !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("write after the end: %v", err)
		}
	})
	t.Run("ten megabytes there and back", func(t *testing.T) {
		sent := make([]byte, 10<<20)
		for i, random := 0, rand.New(rand.NewPCG(1, 2)); i < len(sent); i++ {
			sent[i] = byte(random.Uint32())
		}
		l := spawn(t, s, "cat")
		go func() {
			_, _ = l.Stdin.Write(sent)
			l.Stdin.Close()
		}()
		got, err := io.ReadAll(l.Stdout)
		if err != nil || !bytes.Equal(got, sent) {
			t.Errorf("%d bytes came back of %d (%v)", len(got), len(sent), err)
		}
		if r := resultOf(t, l); r.ExitCode != 0 || r.Dropped != 0 {
			t.Errorf("got %+v", r)
		}
	})
	t.Run("a slow reader loses nothing", func(t *testing.T) {
		l := spawn(t, s, "head -c 3000000 /dev/zero; echo x >blocked")
		eventually(t, "the command waits", func() bool {
			return shell(t, s, "sleep 0.05; [ -e blocked ] && echo yes || echo no") == "no\n"
		})
		got, err := io.ReadAll(l.Stdout)
		if err != nil || len(got) != 3_000_000 {
			t.Errorf("%d bytes (%v)", len(got), err)
		}
		if r := resultOf(t, l); r.ExitCode != 0 {
			t.Errorf("got %+v", r)
		}
	})
	t.Run("signal", func(t *testing.T) {
		l := spawn(t, s, "trap 'exit 7' USR1; echo ready; while :; do sleep 0.01; done")
		until(t, l.Stdout, "ready\n")
		if err := l.Signal(syscall.SIGUSR1); err != nil {
			t.Fatal(err)
		}
		if r := resultOf(t, l); r.ExitCode != 7 {
			t.Errorf("got %+v", r)
		}
	})
	t.Run("no such folder", func(t *testing.T) {
		if _, err := s.Spawn(t.Context(), machine.Command{Script: "true", Dir: "nosuch"}); !errors.Is(err, machine.ErrNotFound) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("timeout", func(t *testing.T) {
		l, err := s.Spawn(t.Context(), machine.Command{Script: "cat /dev/zero", Timeout: 100 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		if r := resultOf(t, l); !r.TimedOut || r.Kill == nil || r.Kill.Survivors != 0 {
			t.Errorf("got %+v", r)
		}
	})
	t.Run("context ends", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		l, err := s.Spawn(ctx, machine.Command{Script: "echo ready; setsid sleep 100 & sleep 100"})
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		until(t, l.Stdout, "ready\n")
		cancel()
		if r := resultOf(t, l); !r.Canceled || r.Kill == nil || r.Kill.Survivors != 0 {
			t.Errorf("got %+v", r)
		}
	})
}

// Closing ends the process although nobody reads what it writes, and leaves nothing running on the host either.
func TestCloseOfALiveProcess(t *testing.T) {
	h := sandboxtest.Engine(t)
	m, config := h.Manager(t)
	s := get(t, m, "live", config.Spec)
	shell(t, s, "true")
	before := goleak.IgnoreCurrent()
	for _, script := range []string{"cat /dev/zero", "trap '' TERM; sleep 100", "sleep 100 & true", "true"} {
		l, err := s.Spawn(t.Context(), machine.Command{Script: script})
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(l.Close(), l.Close()); err != nil {
			t.Errorf("%s: %v", script, err)
		}
	}
	if n := population(t, h, config.Instance); n != supervision {
		t.Errorf("%d processes in the container, want %d", n, supervision)
	}
	eventually(t, "nothing is left", func() bool { return goleak.Find(before) == nil })
}

func TestTerminal(t *testing.T) {
	s := open(t)
	size := executor.Size{Rows: 40, Cols: 132}
	t.Run("size", func(t *testing.T) {
		l := spawn(t, s, "stty size; tty; [ -t 0 ] && [ -t 1 ] && [ -t 2 ] && echo terminals; echo x >$(tty)", size)
		if got, err := io.ReadAll(l.Stdout); string(got) != "40 132\r\n/dev/pts/0\r\nterminals\r\nx\r\n" {
			t.Errorf("got %q (%v)", got, err)
		}
		resultOf(t, l)
	})
	t.Run("resize", func(t *testing.T) {
		l := spawn(t, s, `trap 'stty size; exit' WINCH; echo ready; while :; do sleep 0.01; done`, size)
		until(t, l.Stdout, "ready\r\n")
		if err := l.Resize(executor.Size{Rows: 50, Cols: 99}); err != nil {
			t.Fatal(err)
		}
		until(t, l.Stdout, "50 99\r\n")
		resultOf(t, l)
	})
	t.Run("interactive shell", func(t *testing.T) {
		l := spawn(t, s, "PS1='> ' exec sh -i", size)
		until(t, l.Stdout, "> ")
		say(t, l, "echo $((6*7))\n")
		until(t, l.Stdout, "\n42\r\n")
		until(t, l.Stdout, "> ")
		say(t, l, "sleep 100\n")
		eventually(t, "sleep runs", func() bool { return shell(t, s, "pidof sleep || true") != "" })
		say(t, l, "\x03") // ends sleep, not the shell
		until(t, l.Stdout, "> ")
		say(t, l, "echo code $?\n")
		until(t, l.Stdout, "\ncode 130\r\n")
		until(t, l.Stdout, "> ")
		l.Stdin.Close() // control-D
		rest, err := io.ReadAll(l.Stdout)
		if r := resultOf(t, l); r.ExitCode != 0 || r.Kill != nil {
			t.Errorf("got %+v after %q (%v)", r, rest, err)
		}
	})
	t.Run("hang up", func(t *testing.T) {
		got := ""
		for n := 0; n < 10 && got == ""; n++ { // where the machine has other work the time to say so may be too short
			l := spawn(t, s, "trap '' TERM; trap 'echo hung up >hup; exit' HUP; echo ready; while :; do sleep 0.01; done", size)
			until(t, l.Stdout, "ready\r\n")
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
			got = shell(t, s, "cat hup 2>/dev/null || true")
		}
		if got != "hung up\n" {
			t.Errorf("got %q", got)
		}
	})
	t.Run("raw bytes both ways", func(t *testing.T) {
		sent := bytes.Repeat([]byte("\x00\x03\x04\r\n\xff~"), 20_000)
		l := spawn(t, s, "stty raw -echo; echo ready; head -c 140000", size)
		until(t, l.Stdout, "ready\n")
		go func() { _, _ = l.Stdin.Write(sent) }()
		got, err := io.ReadAll(l.Stdout)
		if err != nil || !bytes.Equal(got, sent) {
			t.Errorf("%d bytes came back of %d (%v)", len(got), len(sent), err)
		}
		resultOf(t, l)
	})
	t.Run("a size without a terminal", func(t *testing.T) {
		l := spawn(t, s, "read x; echo $x")
		if err := l.Resize(size); err != nil {
			t.Fatal(err)
		}
		say(t, l, "still here\n")
		until(t, l.Stdout, "still here\n")
		resultOf(t, l)
	})
}

// A supervisor that breaks the protocol ends the conversation with an error.
func TestHostileLiveStreams(t *testing.T) {
	for name, attack := range map[string]func(c *fakeContainer, id uint32){
		"no credit": func(c *fakeContainer, id uint32) { flood(c, id) },
		"started as 1": func(c *fakeContainer, id uint32) {
			c.send(frame.Frame{Type: frame.Started, ID: id, Payload: []byte(`{"pid":1}`)})
		},
		"hangs up": func(*fakeContainer, uint32) {},
		"bytes of size": func(c *fakeContainer, id uint32) {
			_, _ = c.conn.Write(frame.Frame{Type: frame.Resize, ID: id}.Append(nil))
		},
		"reply": func(c *fakeContainer, id uint32) {
			c.send(frame.Frame{Type: frame.Reply, ID: id, Payload: []byte("{}")})
			_, _ = c.in.Next()
		},
	} {
		t.Run(name, func(t *testing.T) {
			defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
			d := &fakeDriver{play: func(c *fakeContainer) {
				defer c.conn.Close()
				if id := c.greet(); id != 0 {
					attack(c, id)
				}
			}}
			m := fakeManager(t, d)
			s, err := m.Get(t.Context(), "s", "default", spec.Spec{Image: "x"})
			if err != nil {
				t.Fatal(err)
			}
			if l, err := s.Spawn(t.Context(), machine.Command{Script: "true"}); err == nil {
				t.Errorf("started as process %d", l.PID)
				l.Close()
			}
			if err := m.DestroyAll(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

func flood(c *fakeContainer, id uint32) {
	for c.send(frame.Frame{Type: frame.Data, Stream: frame.Out, ID: id, Payload: []byte(strings.Repeat("x", 60000))}) {
	}
}
