package setup

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/flynnhost/flynn/host/model/prove"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/config/edit"
	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/message"
)

const (
	// lookEvery is the time between two looks for a first message.
	lookEvery = 300 * time.Millisecond
	// ownerTimeout bounds the wait for it.
	ownerTimeout = 15 * time.Minute
)

// WaitForOwner waits for somebody to write over a channel, and returns the sender when the person at the terminal confirms that the code which
// Flynn answered is the one in his chat. Only a sender whose id the platform proves can be confirmed. The pairing is approved as flynn
// access approve does.
func (s *Setup) WaitForOwner(ctx context.Context, h Host, channel string) (message.SenderKey, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, ownerTimeout, fmt.Errorf("nobody wrote within %v", ownerTimeout))
	defer cancel()
	seen := map[string]bool{}
	for {
		list, err := h.Access(ctx)
		if err != nil {
			return "", err
		}
		for _, e := range list {
			if e.State != "open" || e.Sender.Channel() != channel || seen[e.Code] {
				continue
			}
			seen[e.Code] = true
			if ok, err := s.confirm(ctx, h, e); err != nil || ok {
				return e.Sender, err
			}
		}
		select {
		case <-time.After(lookEvery):
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	}
}

// confirm asks whether a request is that of the person at the terminal.
func (s *Setup) confirm(ctx context.Context, h Host, e gateway.AccessEntry) (bool, error) {
	who := fmt.Sprintf("%s (%s)", prove.OneLine(e.Name), prove.OneLine(string(e.Sender)))
	if e.Identity != string(message.SendersProved) {
		s.Asker.Say(who + " has written, but the platform does not prove who that is: nobody becomes an owner by that.")
		return false, nil
	}
	s.Asker.Say(fmt.Sprintf("%s has written, and got the code %s.", who, e.Code))
	yes, err := s.Asker.Confirm(ctx, "Does your own chat show this code?", false)
	if err != nil {
		return false, err
	}
	return yes, h.Decide(ctx, e.Code, yes)
}

// AddOwner adds a sender to the owners of a file.
func AddOwner(f *edit.File, c *config.Config, sender message.SenderKey) error {
	if slices.Contains(c.Access.Owners, string(sender)) {
		return nil
	}
	return f.Set(append(slices.Clone(c.Access.Owners), string(sender)), "access", "owners")
}

// ownerKey completes an id that was given without its channel.
func ownerKey(channel, owner string) (string, error) {
	if !strings.HasPrefix(owner, channel+":") {
		owner = channel + ":" + owner
	}
	if strings.ContainsAny(owner, "*?[{") || owner == channel+":" {
		return "", errors.New("--owner takes the id of one sender, such as telegram:12345678")
	}
	return owner, nil
}
