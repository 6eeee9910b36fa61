package sandbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/flynnhost/flynn/host/sandbox/driver"
	"github.com/flynnhost/flynn/host/sandbox/frame"
	"github.com/flynnhost/flynn/host/sandbox/image"
	"github.com/flynnhost/flynn/host/sandbox/machine"
	"github.com/flynnhost/flynn/host/sandbox/spec"
)

// ImageProcess is the id of the process that Spec.Start asks for, among a session's background processes.
const ImageProcess = "image"

// startDeadline bounds the start of that process.
const startDeadline = 30 * time.Second

// isImage reports whether this is the image's own process. The others are numbered from 1 on.
func (p *process) isImage() bool { return p.number == 0 }

// id is the process's handle.
func (p *process) id() string {
	if p.isImage() {
		return ImageProcess
	}
	return strconv.Itoa(p.number)
}

// provideStarted gets a container for s and starts what its specification asks for. In a container from the pool nothing of
// the image's runs before it is claimed: until then nobody has asked for it, it would cost every waiting container memory,
// and its output would begin with what happened in nobody's session.
func (m *Manager) provideStarted(p *pending, s *Session) (*box, error) {
	ctx := p.making
	allowed, err := m.admit(claimant{s.session, s.folder(), s.spec.DiskBytes, s, func() { p.admitted.Store(true) }})
	if err != nil {
		return nil, err
	}
	b, err := m.provide(ctx, s, allowed)
	if err != nil || s.spec.Start == nil {
		return b, err
	}
	ctx, cancel := context.WithTimeout(ctx, startDeadline)
	defer cancel()
	if err := m.startImage(ctx, b, s.spec); err != nil {
		return nil, errors.Join(err, b.remove(errEnded))
	}
	return b, nil
}

// startImage starts the image's process as a background process of the workload's user. It is not started again when it
// ends: its verdict is among the processes.
func (m *Manager) startImage(ctx context.Context, b *box, spec spec.Spec) error {
	body, err := m.imageBody(ctx, b.image, spec)
	if err != nil {
		return err
	}
	p := &process{call: b.link.NewCall()}
	b.mu.Lock()
	b.processes[p.id()] = p
	b.mu.Unlock()
	words := make([]string, len(body.Argv))
	for i, word := range body.Argv {
		words[i] = string(word)
	}
	if _, err := b.spawn(ctx, p, body, machine.Command{Script: strings.Join(words, " ")}); err != nil {
		return fmt.Errorf("%w: start_command of image %s: %w", machine.ErrUnavailable, b.image, err)
	}
	return nil
}

// imageBody puts the program, the image's environment and its working directory into the wire's words.
func (m *Manager) imageBody(ctx context.Context, ref string, spec spec.Spec) (frame.ExecBody, error) {
	body := frame.ExecBody{MaxOutput: machine.DefaultMaxOutput}
	inspector, ok := m.config.Driver.(driver.Inspector)
	if !ok {
		return body, fmt.Errorf("%w: this engine does not tell how an image is started: remove start_command from [sandbox]", machine.ErrUnavailable)
	}
	info, err := inspector.InspectImage(ctx, ref)
	if err != nil {
		return body, err
	}
	info = composed(info, spec)
	argv := spec.Start
	if len(argv) == 0 {
		argv = append(append([]string{}, info.Entrypoint...), info.Cmd...)
	}
	if len(argv) == 0 {
		return body, fmt.Errorf("%w: image %s has no command of its own: write one, such as start_command = [\"nginx\"]", machine.ErrUnavailable, ref)
	}
	size := 0
	for _, word := range argv {
		body.Argv = append(body.Argv, []byte(word))
		size += len(word)
	}
	if size > frame.MaxScript {
		return body, fmt.Errorf("start_command of %d bytes is longer than %d; put it into a file of the image", size, frame.MaxScript)
	}
	for _, variable := range info.Env {
		body.Env = append(body.Env, []byte(variable))
	}
	body.Cwd = []byte(info.WorkingDir)
	return body, nil
}

// composed is what an image says about starting it where a compose file has a say as well. A new entrypoint drops the
// image's command, as the engine does.
func composed(info image.Info, spec spec.Spec) image.Info {
	main, ok := spec.Main()
	if !ok {
		return info
	}
	if main.Entrypoint != nil {
		info.Entrypoint, info.Cmd = main.Entrypoint, nil
	}
	if main.Command != nil {
		info.Cmd = main.Command
	}
	info.Env = append(info.Env[:len(info.Env):len(info.Env)], main.Environment...)
	info.WorkingDir = cmp.Or(main.WorkingDir, info.WorkingDir)
	return info
}
