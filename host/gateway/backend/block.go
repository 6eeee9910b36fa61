package backend

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/config/edit"
	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/route"
	"github.com/flynnhost/flynn/host/store"
)

// Editor edits flynn.toml as the command line does.
type Editor struct {
	Holder *config.Holder
	Getenv func(string) string
	Checks []config.Check
	One    *sync.Mutex // one edit at a time
}

// SetBlocked implements gateway.People.
func (p People) SetBlocked(ctx context.Context, sender message.SenderKey, blocked bool, by string) error {
	rule, ok := route.SenderRule(sender)
	if !ok || route.Frontend(sender.Channel()) != route.FrontendChannel {
		return gateway.BadRequest(fmt.Sprintf("no rule of flynn.toml can name %q", sender))
	}
	p.Edit.One.Lock()
	defer p.Edit.One.Unlock()
	if blocked && slices.ContainsFunc(p.Config().Access.Owners, func(r string) bool { return isRuleOf(r, sender) }) {
		return store.Conflict(fmt.Sprintf("%s is an owner by access.owners of flynn.toml, which is stronger than access.blocked", sender))
	}
	err := p.Edit.access(ctx, func(list []string) []string {
		list = slices.DeleteFunc(list, func(r string) bool { return isRuleOf(r, sender) })
		if blocked {
			list = append(list, rule)
		}
		return list
	})
	if err != nil {
		return err
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

// access changes access.blocked, and puts the file in force. A file that the host refuses is as before.
func (e Editor) access(ctx context.Context, change func([]string) []string) error {
	f, err := edit.Open(e.Holder.Current().Path)
	if err != nil {
		return as(err, store.ErrConflict)
	}
	list, err := stringsAt(f, "access", "blocked")
	if err == nil {
		err = f.Set(change(list), "access", "blocked")
	}
	if err != nil {
		return as(err, store.ErrConflict)
	}
	if f.Diff() == "" {
		return nil
	}
	if err := f.Save(e.Getenv, e.Checks...); err != nil {
		return as(fmt.Errorf("nothing is written, because the file would be wrong: %w", err), store.ErrConflict)
	}
	if err := e.Holder.Reload(context.WithoutCancel(ctx)); err != nil {
		return as(errors.Join(err, f.Undo()), store.ErrConflict)
	}
	return nil
}

// stringsAt returns a list of the file; nil if it is not there.
func stringsAt(f *edit.File, key ...string) ([]string, error) {
	value, ok := f.Get(key...)
	if !ok {
		return nil, nil
	}
	var out []string
	list, ok := value.([]any)
	for _, v := range list {
		s, isText := v.(string)
		ok = ok && isText
		out = append(out, s)
	}
	if !ok {
		return nil, fmt.Errorf("%v is not a list of texts", key)
	}
	return out, nil
}
