package sandbox_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/flynnhost/flynn/host/sandbox"
	"github.com/flynnhost/flynn/host/sandbox/machine"
)

func start(t testing.TB, s *sandbox.Session, cmd machine.Command) machine.Process {
	t.Helper()
	p, err := s.Start(t.Context(), cmd)
	if err != nil {
		t.Fatal(err)
	}
	if p.ID == "" || p.PID <= 1 || p.Script != cmd.Script || p.Started.IsZero() {
		t.Fatalf("started %+v", p)
	}
	return p
}

func output(t testing.TB, s *sandbox.Session, id string, offset int64, max int) machine.Output {
	t.Helper()
	o, err := s.Output(t.Context(), id, offset, max)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func TestBackgroundProcess(t *testing.T) {
	s := open(t)
	p := start(t, s, machine.Command{
		Script: `cat; echo "$A in $PWD"; echo err >&2; until [ -e stop ]; do sleep 0.01; done; exit 4`,
		Stdin:  []byte("from stdin\n"), Env: map[string]string{"A": "here"},
	})
	const want = "from stdin\nhere in /workspace\nerr\n"
	eventually(t, "the output is there", func() bool { return len(output(t, s, p.ID, 0, 1000).Data) == len(want) })
	o := output(t, s, p.ID, 0, 1000)
	if string(o.Data) != want || o.Next != int64(len(want)) || !o.Running || o.Dropped != 0 {
		t.Errorf("output %+v %q", o, o.Data)
	}
	if o := output(t, s, p.ID, 5, 5); string(o.Data) != "stdin" || o.Offset != 5 || o.Next != 10 {
		t.Errorf("part %+v %q", o, o.Data)
	}
	if o := output(t, s, p.ID, 1000, 5); len(o.Data) != 0 || o.Next != int64(len(want)) {
		t.Errorf("beyond the end: %+v", o)
	}
	shell(t, s, "touch stop")
	ended, err := s.Wait(t.Context(), p.ID)
	if err != nil || ended.Running || ended.Result == nil || ended.Result.ExitCode != 4 || ended.Result.Kill != nil {
		t.Errorf("ended %+v (%v)", ended, err)
	}
	if o := output(t, s, p.ID, 0, 1000); string(o.Data) != want || o.Running {
		t.Errorf("output after the end: %+v", o)
	}
}

func TestBackgroundFloodStaysInside(t *testing.T) {
	s := open(t)
	p := start(t, s, machine.Command{Script: `head -c 5000000 /dev/zero; printf end`})
	if ended, err := s.Wait(t.Context(), p.ID); err != nil || ended.Result.ExitCode != 0 {
		t.Fatalf("ended %+v (%v)", ended, err)
	}
	o := output(t, s, p.ID, 0, 2<<20)
	if o.Next != 5000003 || len(o.Data) != 1<<20 || o.Offset != 5000003-1<<20 || o.Dropped != o.Offset || !bytes.HasSuffix(o.Data, []byte("\x00end")) {
		t.Errorf("kept %d bytes at %d, next %d, dropped %d", len(o.Data), o.Offset, o.Next, o.Dropped)
	}
}

func TestSignal(t *testing.T) {
	s := open(t)
	p := start(t, s, machine.Command{Script: `trap 'echo got; exit 5' USR1; echo ready; while :; do sleep 0.01; done`})
	eventually(t, "the trap is set", func() bool { return len(output(t, s, p.ID, 0, 10).Data) > 0 })
	if err := s.Signal(t.Context(), p.ID, syscall.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	if ended, err := s.Wait(t.Context(), p.ID); err != nil || ended.Result.ExitCode != 5 {
		t.Errorf("ended %+v (%v)", ended, err)
	}
}

func TestUnknownProcess(t *testing.T) {
	s := open(t)
	_, outputErr := s.Output(t.Context(), "7", 0, 1)
	_, killErr := s.Kill(t.Context(), "7")
	_, waitErr := s.Wait(t.Context(), "7")
	for _, err := range []error{outputErr, killErr, waitErr, s.Signal(t.Context(), "7", syscall.SIGTERM)} {
		if !errors.Is(err, machine.ErrNotFound) {
			t.Errorf("got %v", err)
		}
	}
}

func TestBackgroundTimeout(t *testing.T) {
	s := open(t)
	p := start(t, s, machine.Command{Script: "sleep 100", Timeout: 100 * time.Millisecond})
	ended, err := s.Wait(t.Context(), p.ID)
	if err != nil || !ended.Result.TimedOut || ended.Result.Kill == nil || ended.Result.Kill.Survivors != 0 {
		t.Errorf("ended %+v (%v)", ended, err)
	}
}

func TestOldProcessesAreForgotten(t *testing.T) {
	s := open(t)
	for i := range 70 {
		p := start(t, s, machine.Command{Script: fmt.Sprint("exit ", i)})
		if ended, err := s.Wait(t.Context(), p.ID); err != nil || ended.Result.ExitCode != i {
			t.Fatalf("ended %+v (%v)", ended, err)
		}
	}
	all, err := s.Processes(t.Context())
	if err != nil || len(all) != 64 || all[0].Script != "exit 6" || all[63].Script != "exit 69" {
		t.Errorf("%d processes, first %+v (%v)", len(all), all[0], err)
	}
}

// Stdin that nobody reads holds nothing up, neither while the process lives nor afterwards.
func TestUnreadBackgroundStdin(t *testing.T) {
	s := open(t)
	shell(t, s, "true")
	before := goleak.IgnoreCurrent()
	p := start(t, s, machine.Command{Script: "sleep 100", Stdin: []byte(strings.Repeat("x", 3<<20))})
	shell(t, s, "true")
	if _, err := s.Kill(t.Context(), p.ID); err != nil {
		t.Fatal(err)
	}
	eventually(t, "nobody holds the input any more", func() bool { return goleak.Find(before) == nil })
}
