package conform

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	"github.com/flynnhost/flynn/sdk/plugintest/fake"
)

// build builds the Go package, if that is what the platform is; clean removes what was built.
func (f *fakeCommand) build(ctx context.Context, dir string) (clean func(), err error) {
	if f.Package == "" {
		return func() {}, nil
	}
	out, err := os.MkdirTemp("", "fakeplatform")
	if err != nil {
		return nil, err
	}
	clean = func() { _ = os.RemoveAll(out) }
	program := filepath.Join(out, "platform")
	cmd := exec.CommandContext(ctx, "go", "build", "-ldflags=-s -w", "-o", program, f.Package)
	cmd.Dir = dir
	if text, err := cmd.CombinedOutput(); err != nil {
		clean()
		return nil, fmt.Errorf("build the fake platform %s: %w: %.2000s", f.Package, err, text)
	}
	f.Command = []string{program}
	return clean, nil
}

// platform is a running fake platform.
type platform struct {
	ready fake.Ready
	cmd   *exec.Cmd
	in    io.WriteCloser
	errs  bytes.Buffer // what it wrote to standard error; safe to read once over is closed
	over  chan struct{}

	mu      sync.Mutex
	seen    []fake.Report
	changed chan struct{} // closed and replaced with each report
}

// maxReports bounds what is kept of what a platform says; a check needs a handful.
const maxReports = 10_000

const maxReport = 1 << 20 // bytes of a line

// startPlatform starts the program and waits for its first line.
func startPlatform(ctx context.Context, dir string, command []string) (*platform, error) {
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Dir = dir
	cmd.WaitDelay = time.Second
	p := &platform{cmd: cmd, over: make(chan struct{}), changed: make(chan struct{})}
	cmd.Stderr = &p.errs
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the fake platform: %w: look at [fake] command in %s", err, FileName)
	}
	p.in = in
	go p.read(out) // ends with the program, for which close waits
	_, err = p.await(ctx, 1, func(r fake.Report) bool { return r.Ready != nil })
	if err != nil {
		p.close()
		return nil, fmt.Errorf("start the fake platform: %w", err)
	}
	return p, nil
}

func (p *platform) read(out io.Reader) {
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, maxReport)
	for lines.Scan() {
		var r fake.Report
		if json.Unmarshal(lines.Bytes(), &r) == nil {
			p.add(r)
		}
	}
	_, _ = io.Copy(io.Discard, out) // after a line that was too long
	_ = p.cmd.Wait()
	close(p.over)
}

func (p *platform) add(r fake.Report) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r.Ready != nil {
		p.ready = *r.Ready
	}
	if len(p.seen) < maxReports {
		p.seen = append(p.seen, r)
	}
	close(p.changed)
	p.changed = make(chan struct{})
}

// count tells how many reports are so, and what to wait for until there may be more.
func (p *platform) count(is func(fake.Report) bool) (n int, changed <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range p.seen {
		if is(r) {
			n++
		}
	}
	return n, p.changed
}

// await waits until at least so many reports are so, and returns how many are.
func (p *platform) await(ctx context.Context, least int, is func(fake.Report) bool) (int, error) {
	for {
		n, changed := p.count(is)
		if n >= least {
			return n, nil
		}
		select {
		case <-changed:
		case <-p.over:
			return 0, fmt.Errorf("the fake platform ended: %.300s", bytes.TrimSpace(p.errs.Bytes()))
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
	}
}

func (p *platform) tell(c fake.Command) error {
	text, err := json.Marshal(c)
	if err != nil {
		return err
	}
	if _, err := p.in.Write(append(text, '\n')); err != nil {
		return fmt.Errorf("speak to the fake platform: %w", err)
	}
	return nil
}

// platformGrace is how long a fake platform may take to end.
const platformGrace = 5 * time.Second

func (p *platform) close() {
	err := p.in.Close()
	late := time.NewTimer(platformGrace)
	defer late.Stop()
	select {
	case <-p.over:
	case <-late.C:
		err = errors.Join(err, p.cmd.Process.Kill())
		<-p.over
	}
	_ = err // it is gone in any case
}
