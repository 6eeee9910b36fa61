package gatewaytest

import (
	"archive/zip"
	"context"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/route"
	"github.com/flynnhost/flynn/host/store"
)

// person is somebody who may sign in.
type person struct {
	sender message.SenderKey
	role   string
	code   string
	token  string
	signIn string
}

// Admit gives a sender a role, and the code of a link. The role "" shuts him out.
func (b *Backend) Admit(sender message.SenderKey, role, code string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range b.persons {
		if b.persons[i].sender == sender {
			b.persons[i].role = role
		}
	}
	if code != "" {
		b.persons = append(b.persons, person{sender: sender, role: role, code: code})
	}
	b.note(store.SignIns, "", sender)
}

var _ gateway.SignIns = (*Backend)(nil)

// Caller implements gateway.SignIns.
func (b *Backend) Caller(token string) (gateway.Caller, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, p := range b.persons {
		if p.token != "" && p.token == token && p.role != "" {
			return gateway.Caller{Sender: p.sender, Role: p.role, SignIn: p.signIn}, true
		}
	}
	return gateway.Caller{}, false
}

// SignIn implements gateway.SignIns.
func (b *Backend) SignIn(_ context.Context, code string) (gateway.SignedIn, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range b.persons {
		if p := &b.persons[i]; p.code != "" && p.code == code {
			p.code, p.signIn = "", b.id("sign-in")
			p.token = "TOKEN-OF-" + p.signIn
			b.note(store.SignIns, "", p.sender)
			return gateway.SignedIn{Token: p.token, Sender: p.sender, Role: p.role}, nil
		}
	}
	return gateway.SignedIn{}, store.NotFound("this link is not good any more")
}

// SignIns implements gateway.SignIns.
func (b *Backend) SignIns(sender message.SenderKey) (out []gateway.SignIn) {
	b.mu.Lock()
	defer b.mu.Unlock()
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for _, p := range b.persons {
		if p.signIn != "" && (sender == "" || p.sender == sender) {
			out = append(out, gateway.SignIn{ID: p.signIn, Sender: p.sender, Role: p.role, Began: at, Used: at})
		}
	}
	return out
}

// EndSignIn implements gateway.SignIns.
func (b *Backend) EndSignIn(_ context.Context, id string, sender message.SenderKey, _ string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range b.persons {
		if p := &b.persons[i]; p.signIn != "" && p.signIn == id && (sender == "" || p.sender == sender) {
			p.signIn, p.token = "", ""
			b.note(store.SignIns, "", p.sender)
			return nil
		}
	}
	return store.ErrNotFound
}

// people implements gateway.People.
type people struct{ *Backend }

var _ gateway.People = people{}

// Known implements gateway.People.
func (b people) Known(ctx context.Context, after message.SenderKey, words string, limit int) ([]gateway.AccessEntry, error) {
	list, err := b.Access(ctx)
	slices.SortStableFunc(list, func(x, y gateway.AccessEntry) int { return strings.Compare(string(x.Sender), string(y.Sender)) })
	list = slices.DeleteFunc(list, func(e gateway.AccessEntry) bool {
		return e.Sender <= after || !strings.Contains(strings.ToLower(string(e.Sender)+e.Name), strings.ToLower(words))
	})
	return list[:min(len(list), limit)], err
}

// Person implements gateway.People.
func (b people) Person(_ context.Context, sender message.SenderKey) (gateway.Person, error) {
	signIns := b.SignIns(sender)
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, e := range b.strangers {
		if e.Sender == sender {
			used := gateway.UsageSum{Calls: 3, Input: 1200, CostUSD: ptr(1.25)}
			return gateway.Person{
				AccessEntry: e, Blocked: e.Configured == "blocked", Linked: []message.SenderKey{"mail:" + message.SenderKey(sender.ID())},
				Sessions: 2, Notes: 3, Files: 4, SignIns: append([]gateway.SignIn{}, signIns...), Used: used, Month: used,
				Held: gateway.Held{Sender: sender, Bytes: 4096}, Last: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC),
			}, nil
		}
	}
	return gateway.Person{}, store.ErrNotFound
}

// Export implements gateway.People.
func (b people) Export(_ context.Context, sender message.SenderKey, w io.Writer) error {
	out := zip.NewWriter(w)
	f, err := out.Create("person.json")
	if err == nil {
		_, err = io.WriteString(f, string(sender))
	}
	if err != nil {
		return err
	}
	return out.Close()
}

// Erase implements gateway.People.
func (b people) Erase(_ context.Context, sender message.SenderKey, _ string) (gateway.Erased, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.note(store.People, string(sender), "")
	b.strangers = slices.DeleteFunc(b.strangers, func(e gateway.AccessEntry) bool { return e.Sender == sender })
	return gateway.Erased{Sessions: 2, Notes: 3, Files: 4}, nil
}

// SetBlocked implements gateway.People.
func (b people) SetBlocked(_ context.Context, sender message.SenderKey, blocked bool, _ string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range b.strangers {
		if e := &b.strangers[i]; e.Sender == sender {
			b.note(store.People, string(sender), "")
			e.Configured, e.Effective = "", route.Guest
			if blocked {
				e.Configured, e.Effective = "blocked", ""
			}
			return nil
		}
	}
	return store.Conflict("somebody else is stronger")
}

func ptr[T any](v T) *T { return &v }
