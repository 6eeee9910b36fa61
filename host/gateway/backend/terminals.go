package backend

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/sandbox/executor"
	"github.com/flynnhost/flynn/host/sandbox/machine"
	"github.com/flynnhost/flynn/host/store"
	"github.com/flynnhost/flynn/host/tool/consent"
)

// Halted is the kill switch.
type Halted interface {
	// Why says why nothing runs; "" if the switch is off.
	Why() string
	// Thrown is closed once the switch is on.
	Thrown() <-chan struct{}
}

// Audit keeps what people did.
type Audit interface {
	AddAudit(ctx context.Context, rows []consent.AuditRow) error
}

// shell is what a terminal runs: the best shell that the image has.
const shell = "if command -v bash >/dev/null 2>&1; then exec bash -i; fi; exec sh -i"

// auditTimeout bounds the record of a terminal's end, which is made when its context has ended.
const auditTimeout = 5 * time.Second

// OpenTerminal implements gateway.Sandboxes. The beginning is recorded first: without a record there is no terminal.
func (s Sandboxes) OpenTerminal(ctx context.Context, id string, size gateway.TerminalSize, by string) (gateway.Terminal, error) {
	box, err := s.Fleet.LiveSession(id)
	if err != nil {
		return nil, ofSandbox(err)
	}
	if why := s.Halted.Why(); why != "" {
		return nil, fmt.Errorf("%w: no terminal is opened while the host is halted: %s", store.ErrConflict, why)
	}
	row := consent.AuditRow{At: time.Now(), Kind: consent.AuditTerminal, Subject: string(box.Session()), Actor: by, Agent: box.Session().Agent(),
		Detail: fmt.Sprintf("a terminal was opened in sandbox %q, container %.12s", box.Name(), id)}
	if err := s.Audit.AddAudit(ctx, []consent.AuditRow{row}); err != nil {
		return nil, fmt.Errorf("record the terminal: %w", err)
	}
	running, stop := context.WithCancel(ctx)
	live, err := box.Spawn(running, machine.Command{Script: shell, Env: map[string]string{"TERM": "xterm"}}, executor.Size(size))
	if err != nil {
		stop()
		return nil, ofSandbox(err)
	}
	t := &terminal{Live: live, stop: stop, done: make(chan struct{})}
	t.watching.Go(func() { t.watch(s.Halted.Thrown()) })
	t.ended = func() {
		row.At, row.Kind, row.Detail = time.Now(), consent.AuditTerminalEnd, t.Ended()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), auditTimeout)
		defer cancel()
		_ = s.Audit.AddAudit(ctx, []consent.AuditRow{row}) // its beginning is recorded
	}
	return t, nil
}

// terminal is a shell. It ends with the kill switch.
type terminal struct {
	*executor.Live
	stop   context.CancelFunc
	halted atomic.Bool
	done   chan struct{} // closed by Close
	ended  func()

	watching sync.WaitGroup
}

// watch ends the shell when the kill switch is thrown.
func (t *terminal) watch(thrown <-chan struct{}) {
	select {
	case <-thrown:
		t.halted.Store(true)
		t.stop()
	case <-t.done:
	}
}

// Read implements gateway.Terminal.
func (t *terminal) Read(p []byte) (int, error) {
	n, err := t.Stdout.Read(p)
	if err != nil { // also that the sandbox is gone: Ended says so
		err = io.EOF
	}
	return n, err
}

// Write implements gateway.Terminal.
func (t *terminal) Write(p []byte) (int, error) { return t.Stdin.Write(p) }

// Resize implements gateway.Terminal.
func (t *terminal) Resize(size gateway.TerminalSize) error { return t.Live.Resize(executor.Size(size)) }

// Ended implements gateway.Terminal.
func (t *terminal) Ended() string {
	if t.halted.Load() {
		return "the host was halted"
	}
	ctx, cancel := context.WithTimeout(context.Background(), auditTimeout)
	defer cancel()
	r, err := t.Wait(ctx)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return "the terminal was closed"
	case err != nil:
		return "the sandbox has ended: " + strings.TrimPrefix(err.Error(), machine.ErrUnavailable.Error()+": ")
	case r.Signal != "":
		return "the shell was ended by " + r.Signal
	}
	return fmt.Sprintf("the shell ended with exit code %d", r.ExitCode)
}

// Close implements gateway.Terminal.
func (t *terminal) Close() error {
	close(t.done)
	t.watching.Wait()
	t.stop()
	err := t.Live.Close()
	t.ended()
	return err
}
