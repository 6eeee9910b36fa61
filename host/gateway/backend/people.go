package backend

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/flynnhost/flynn/host/access/pairing"
	"github.com/flynnhost/flynn/host/agent/memory"
	"github.com/flynnhost/flynn/host/agent/session"
	"github.com/flynnhost/flynn/host/agent/turnlog"
	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/config/edit"
	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/model/usage"
	"github.com/flynnhost/flynn/host/route"
	"github.com/flynnhost/flynn/host/store"
	"github.com/flynnhost/flynn/host/store/media"
	"github.com/flynnhost/flynn/host/tool/consent"
)

// People are the persons whom the host knows. See exportperson.go, erase.go and block.go for what is done with what it has of them.
type People struct {
	Config   func() *config.Config
	Roles    func() *route.Roles
	Pairings *pairing.Service
	SignIns  SignIns
	Usage    Usage
	Media    *media.Store
	Keeper   *session.Keeper
	Files    interface {
		RemoveWorkspace(key message.WorkspaceKey) error
	}
	// Persons returns the sender keys of one person, the given one first.
	Persons func(sender message.SenderKey) []message.SenderKey
	Store   interface {
		session.Source
		turnlog.Own
		Senders(ctx context.Context) ([]message.SenderKey, error)
		SearchNotes(ctx context.Context, q memory.NoteQuery) ([]memory.Note, error)
		ForgetNotes(ctx context.Context, q memory.NoteQuery) ([]memory.Note, error)
		SumUsage(ctx context.Context, by usage.Key, f usage.Filter) ([]usage.Sum, error)
		AddAudit(ctx context.Context, rows []consent.AuditRow) error
	}
	Editor *edit.Editor
}

var _ gateway.People = People{}

// States of persons without a pairing.
const (
	stateListed   = "listed"
	stateAnswered = "answered"
)

// Known implements gateway.People.
func (p People) Known(ctx context.Context, after message.SenderKey, words string, limit int) ([]gateway.AccessEntry, error) {
	all, err := p.known(ctx)
	if err != nil {
		return nil, err
	}
	var out []gateway.AccessEntry
	words = strings.ToLower(words)
	for _, key := range slices.Sorted(maps.Keys(all)) {
		e := all[key]
		fits := strings.Contains(strings.ToLower(string(e.Sender)+"\n"+e.Name), words)
		if key > after && fits && len(out) < limit {
			out = append(out, p.entry(e))
		}
	}
	return out, nil
}

// known returns the persons by key, without what is in force about them.
func (p People) known(ctx context.Context) (map[message.SenderKey]gateway.AccessEntry, error) {
	senders, err := p.Store.Senders(ctx)
	if err != nil {
		return nil, err
	}
	all := map[message.SenderKey]gateway.AccessEntry{}
	for _, key := range senders {
		if route.Frontend(key.Channel()) == route.FrontendChannel {
			all[key] = gateway.AccessEntry{Sender: key, State: stateAnswered}
		}
	}
	access := p.Config().Access
	for _, rule := range slices.Concat(access.Owners, access.Members, access.Blocked) {
		if key, ok := route.SenderOf(rule); ok {
			all[key] = gateway.AccessEntry{Sender: key, State: stateListed}
		}
	}
	roles := p.Roles()
	for _, row := range p.Pairings.List() {
		all[row.Sender] = accessEntry(row, roles)
	}
	return all, nil
}

// entry adds what is in force about a person.
func (p People) entry(e gateway.AccessEntry) gateway.AccessEntry {
	roles, channel := p.Roles(), e.Sender.Channel()
	e.Identity, e.Effective = roles.Identity(channel, e.Sender), effective(roles, p.Config(), e.Sender)
	if e.State == stateListed {
		if e.Configured = roles.Of(channel, e.Sender); roles.Blocked(channel, e.Sender) {
			e.Configured = "blocked"
		}
	}
	return e
}

// effective returns the role that a sender has now, and "" for one who is not answered in private.
func effective(roles *route.Roles, c *config.Config, sender message.SenderKey) string {
	channel := sender.Channel()
	if roles.Blocked(channel, sender) || !roles.Known(channel, sender) && c.AccessOn(channel).Mode != config.AccessOpen {
		return ""
	}
	return roles.Of(channel, sender)
}

// month is the time of the later sum of usage.
const month = 30 * 24 * time.Hour

// Person implements gateway.People.
func (p People) Person(ctx context.Context, sender message.SenderKey) (gateway.Person, error) {
	all, err := p.known(ctx)
	if err != nil {
		return gateway.Person{}, err
	}
	e, ok := all[sender]
	if !ok {
		return gateway.Person{}, store.NotFound("nobody of this name has written or is listed")
	}
	v := gateway.Person{
		AccessEntry: p.entry(e), Blocked: p.Roles().Blocked(sender.Channel(), sender), Linked: append([]message.SenderKey{}, p.Persons(sender)[1:]...),
		SignIns: append([]gateway.SignIn{}, p.SignIns.SignIns(sender)...), Files: len(p.Media.Of(sender)), Held: gateway.Held{Sender: sender},
	}
	sessions, err := p.Store.SessionsOf(ctx, sender)
	if err != nil {
		return v, err
	}
	latest, err := p.Store.ConversationsOf(ctx, sender, 1)
	if err != nil {
		return v, err
	}
	for _, c := range latest {
		v.Last = c.Last
	}
	notes, err := p.Store.SearchNotes(ctx, memory.NoteQuery{Persons: memory.Scopes([]message.SenderKey{sender})})
	if err != nil {
		return v, err
	}
	v.Sessions, v.Notes = len(sessions), len(notes)
	if v.Used, err = p.used(ctx, sender, time.Time{}); err != nil {
		return v, err
	}
	if v.Month, err = p.used(ctx, sender, time.Now().Add(-month)); err != nil {
		return v, err
	}
	held, err := p.Usage.Held(ctx)
	if i := slices.IndexFunc(held, func(h gateway.Held) bool { return h.Sender == sender }); i >= 0 {
		v.Held = held[i]
	}
	return v, err
}

func (p People) used(ctx context.Context, sender message.SenderKey, since time.Time) (gateway.UsageSum, error) {
	sums, err := p.Store.SumUsage(ctx, usage.All, usage.Filter{Sender: sender, Since: since})
	return cmp.Or(append(gateway.UsageSums(sums), gateway.UsageSum{})...), err
}
