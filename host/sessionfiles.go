package host

import (
	"context"
	"fmt"
	"io"

	"github.com/flynnhost/flynn/host/agent/session"
	"github.com/flynnhost/flynn/host/gateway"
)

// ImportSession implements gateway.Sessions.
func (b backend) ImportSession(ctx context.Context, file io.Reader) (gateway.ImportedSession, error) {
	f, err := session.Read(file)
	if err != nil {
		return gateway.ImportedSession{}, fmt.Errorf("%w: %w", gateway.ErrBadFile, err)
	}
	err = b.h.runner.Renewed(f.Session.Key, func() error {
		return b.h.store.PutSession(context.WithoutCancel(ctx), f.Session, f.Turns, f.Summary)
	})
	if err == nil {
		b.h.log.Info("session imported", "session", f.Session.Key, "turns", f.Session.Turns)
	}
	return gateway.ImportedSession(f.Session), err
}

var _ gateway.Sessions = backend{}
