package command

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/flynnhost/flynn/host/access/pairing"
	"github.com/flynnhost/flynn/host/access/pairings"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/store"
)

// Pairings decides pairing requests; *pairing.Service implements it.
type Pairings interface {
	Decide(ctx context.Context, code string, approve bool, by string) (pairings.Pairing, error)
	// Refuse denies a request by its id.
	Refuse(ctx context.Context, id, by string) (pairings.Pairing, error)
	// Guess counts a code from a sender who may not decide.
	Guess(ctx context.Context, guesser string) (lockedOut bool, err error)
}

var _ Pairings = (*pairing.Service)(nil)

// pair decides a pairing request: "/pair CODE", "/pair deny CODE", "/pair deny REQUEST". A sender who is not an owner learns nothing about
// the code, and the attempt counts as a guess.
func (d *Service) pair(ctx context.Context, m message.Message, c Command) (string, error) {
	code, approve := c.Arg, true
	if word, rest, _ := strings.Cut(c.Arg, " "); strings.EqualFold(word, "deny") {
		code, approve = rest, false
	}
	_, isCode := pairing.ParseCode(code)
	if !isCode && !approve && store.IsID(code) && d.owner(m) {
		return d.refuse(ctx, m, code)
	}
	switch {
	case !isCode && d.owner(m):
		return "Write the code that the person was given: `/pair ABCD-EFGH`, or `/pair deny ABCD-EFGH`.", nil
	case !d.owner(m):
		return d.guess(ctx, m, isCode)
	}
	p, err := d.cfg.Pairings.Decide(ctx, code, approve, string(m.SenderKey()))
	switch {
	case err == nil && approve:
		return fmt.Sprintf("Let in as %s: `%s`. `flynn access list` shows all pairings, `flynn access revoke` ends one.", p.Role, p.Sender), nil
	case err == nil:
		return fmt.Sprintf("Not let in: `%s`.", p.Sender), nil
	case errors.Is(err, pairing.ErrCode), errors.Is(err, pairing.ErrDecided), errors.Is(err, pairing.ErrLocked):
		return sentence(err), nil
	}
	return "", err
}

func (d *Service) refuse(ctx context.Context, m message.Message, request string) (string, error) {
	p, err := d.cfg.Pairings.Refuse(ctx, request, string(m.SenderKey()))
	switch {
	case err == nil:
		return fmt.Sprintf("Not let in: `%s`.", p.Sender), nil
	case errors.Is(err, pairing.ErrRequest), errors.Is(err, pairing.ErrDecided):
		return sentence(err), nil
	}
	return "", err
}

func (d *Service) guess(ctx context.Context, m message.Message, isCode bool) (string, error) {
	lockedOut := false
	if isCode {
		var err error
		if lockedOut, err = d.cfg.Pairings.Guess(ctx, string(m.SenderKey())); err != nil {
			return "", err
		}
	}
	if lockedOut {
		return sentence(pairing.ErrLocked), nil
	}
	return "Only an owner can let somebody in.", nil
}

// sentence is the text of an error as a sentence.
func sentence(err error) string {
	text := err.Error()
	return strings.ToUpper(text[:1]) + text[1:] + "."
}
