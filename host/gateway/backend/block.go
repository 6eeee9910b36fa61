package backend

import (
	"context"
	"fmt"
	"slices"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/config/edit"
	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/route"
	"github.com/flynnhost/flynn/host/store"
)

// SetBlocked implements gateway.People.
func (p People) SetBlocked(ctx context.Context, sender message.SenderKey, blocked bool, by string) error {
	rule, ok := route.SenderRule(sender)
	if !ok || route.Frontend(sender.Channel()) != route.FrontendChannel {
		return gateway.BadRequest(fmt.Sprintf("no rule of flynn.toml can name %q", sender))
	}
	what := map[bool]string{true: "block ", false: "unblock "}[blocked] + string(sender)
	_, err := p.Editor.Edit(ctx, edit.Author{By: by, What: what}, func(f *edit.File, c *config.Config) error {
		if blocked && slices.ContainsFunc(c.Access.Owners, func(r string) bool { return isRuleOf(r, sender) }) {
			return store.Conflict(fmt.Sprintf("%s is an owner by access.owners of flynn.toml, which is stronger than access.blocked", sender))
		}
		list := slices.DeleteFunc(c.Access.Blocked, func(r string) bool { return isRuleOf(r, sender) })
		switch {
		case blocked:
			list = append(list, rule)
		case !f.Has("access", "blocked"):
			return nil
		}
		return f.Set(list, "access", "blocked")
	})
	if err != nil {
		return gateway.NotEdited(err)
	}
	if blocked {
		return p.SignIns.EndAll(ctx, sender, by)
	}
	if p.Roles().Blocked(sender.Channel(), sender) {
		return store.Conflict(fmt.Sprintf("%s is still blocked by a pattern in access.blocked of flynn.toml", sender))
	}
	return nil
}

func isRuleOf(rule string, sender message.SenderKey) bool {
	key, ok := route.SenderOf(rule)
	return ok && key == sender
}
