package command

import (
	"context"

	"github.com/flynnhost/flynn/host/message"
)

// halt throws the kill switch, or takes it back. Doing it twice changes nothing.
func (d *Desk) halt(ctx context.Context, m message.Message, c Command) (string, error) {
	if !d.owner(m) {
		return "Only an owner can do this.", nil
	}
	on := c.Name == "halt"
	if err := d.cfg.Switch.Set(ctx, on, c.Arg, m.SenderKey()); err != nil {
		return "", err
	}
	if on {
		return "Everything is halted, here and everywhere else. What is sent waits. `/resume` lets it go on.", nil
	}
	return "Everything goes on.", nil
}
