package command

import (
	"context"

	"github.com/flynnhost/flynn/host/message"
)

// halt turns the kill switch on or off. Doing it twice changes nothing.
func (d *Service) halt(ctx context.Context, m message.Message, c Command) (string, error) {
	if !d.owner(m) {
		return "Only an owner can do this.", nil
	}
	on := c.Name == "halt"
	if err := d.cfg.Switch.Set(ctx, on, c.Arg, string(m.SenderKey())); err != nil {
		return "", err
	}
	if on {
		return "Everything is halted, here and everywhere else. New messages wait. `/resume` continues.", nil
	}
	return "Everything continues.", nil
}
