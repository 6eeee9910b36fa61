package launch

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/flynnhost/flynn/host/sandbox/container"
	"github.com/flynnhost/flynn/host/sandbox/driver"
	"github.com/flynnhost/flynn/host/sandbox/frame"
	"github.com/flynnhost/flynn/host/sandbox/image"
	"github.com/flynnhost/flynn/host/sandbox/machine"
	"github.com/flynnhost/flynn/host/sandbox/spec"
)

// StartImage starts the image's own program, if the specification requests it, as a background process of the workload's user. In a pooled
// container it does not run before a session has the container: it would cost memory in every waiting container, and its output would begin
// before the session.
func (l *Launcher) StartImage(ctx context.Context, c *container.Container, s spec.Spec) error {
	info, err := l.imageCommand(ctx, c.Image(), s)
	if err != nil {
		return err
	}
	if err := c.StartImage(ctx, info.Cmd, info.Env, info.WorkingDir); err != nil {
		return fmt.Errorf("%w: start_command of image %s: %w", machine.ErrUnavailable, c.Image(), err)
	}
	return nil
}

// imageCommand returns the program to start with its arguments as Cmd, the image's environment and its working directory.
func (l *Launcher) imageCommand(ctx context.Context, ref string, s spec.Spec) (image.Info, error) {
	inspector, ok := l.config.Driver.(driver.Inspector)
	if !ok {
		return image.Info{}, fmt.Errorf("%w: this engine does not report the command of an image: remove start_command from [sandbox]", machine.ErrUnavailable)
	}
	info, err := inspector.InspectImage(ctx, ref)
	if err != nil {
		return info, err
	}
	info = composed(info, s)
	argv := s.Start
	if len(argv) == 0 {
		argv = slices.Concat(info.Entrypoint, info.Cmd)
	}
	if len(argv) == 0 {
		return info, fmt.Errorf("%w: image %s has no command of its own: write one, such as start_command = [\"nginx\"]", machine.ErrUnavailable, ref)
	}
	if size := len(strings.Join(argv, "")); size > frame.MaxScript {
		return info, fmt.Errorf("start_command of %d bytes is longer than %d; put it into a file of the image", size, frame.MaxScript)
	}
	info.Cmd = argv
	return info, nil
}

// composed applies the settings of a compose file to the way that an image is started. A new entrypoint drops the image's command, as the
// engine does.
func composed(info image.Info, s spec.Spec) image.Info {
	main, ok := s.Main()
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
