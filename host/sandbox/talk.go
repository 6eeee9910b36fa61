package sandbox

import (
	"context"

	"github.com/flynnhost/flynn/host/sandbox/machine"
)

var _ machine.Talker = (*Session)(nil)

// Talk implements machine.Talker: Spawn in words that are free of containers.
func (s *Session) Talk(ctx context.Context, cmd machine.Command) (*machine.Live, error) {
	l, err := s.Spawn(ctx, cmd)
	if err != nil {
		return nil, err
	}
	leave := func() error {
		defer l.box.bringHome(ctx)
		return l.Close()
	}
	return &machine.Live{Stdin: l.Stdin, Stdout: l.Stdout, Stderr: l.Stderr, Wait: l.Wait, Close: leave}, nil
}
