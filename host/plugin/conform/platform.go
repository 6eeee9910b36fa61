package conform

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/flynnhost/flynn/sdk/plugintest/fake"
)

// build builds the platform's Go package, if it has one; clean removes the program.
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
	ready  fake.Ready
	report func(fake.Report)
	cmd    *exec.Cmd
	in     io.WriteCloser
	errs   bytes.Buffer  // standard error; safe to read once over is closed
	began  chan struct{} // closed once ready is there
	over   chan struct{} // closed at the end of the program
}

var _ fake.Platform = (*platform)(nil)

const maxReport = 1 << 20 // bytes of a line

// startPlatform starts the program and waits for its first line.
func startPlatform(ctx context.Context, dir string, command []string, report func(fake.Report)) (*platform, error) {
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Dir = dir
	cmd.WaitDelay = time.Second
	p := &platform{cmd: cmd, report: report, began: make(chan struct{}), over: make(chan struct{})}
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
	go p.read(out) // ends with the program, for which Close waits
	select {
	case <-p.began:
		return p, nil
	case <-p.over:
		err = p.ended()
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	p.Close()
	return nil, fmt.Errorf("start the fake platform: %w", err)
}

func (p *platform) read(out io.Reader) {
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, maxReport)
	for begun := false; lines.Scan(); {
		var r fake.Report
		switch err := json.Unmarshal(lines.Bytes(), &r); {
		case err != nil:
		case r.Ready != nil && !begun:
			begun, p.ready = true, *r.Ready
			close(p.began)
		default:
			p.report(r)
		}
	}
	_, _ = io.Copy(io.Discard, out) // after a line that was too long
	_ = p.cmd.Wait()
	close(p.over)
}

func (p *platform) ended() error {
	return fmt.Errorf("the fake platform ended: %.300s", bytes.TrimSpace(p.errs.Bytes()))
}

func (p *platform) tell(c fake.Command) error {
	text, err := json.Marshal(c)
	if err != nil {
		return err
	}
	select {
	case <-p.over:
		return p.ended()
	default:
	}
	if _, err := p.in.Write(append(text, '\n')); err != nil {
		return fmt.Errorf("write to the fake platform: %w", err)
	}
	return nil
}

// Post implements fake.Platform.
func (p *platform) Post(m fake.Post) error { return p.tell(fake.Command{Post: &m}) }

// Disconnect implements fake.Platform.
func (p *platform) Disconnect() {
	_ = p.tell(fake.Command{Disconnect: true}) // a platform that is gone has no connections
}

// platformGrace is how long a fake platform may take to end.
const platformGrace = 5 * time.Second

// Close implements fake.Platform.
func (p *platform) Close() {
	_ = p.in.Close()
	late := time.NewTimer(platformGrace)
	defer late.Stop()
	select {
	case <-p.over:
	case <-late.C:
		_ = p.cmd.Process.Kill()
		<-p.over
	}
}
