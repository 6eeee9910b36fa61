package pairing

import (
	"context"
	"errors"
	"time"

	"github.com/flynnhost/flynn/host/access/pairings"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/route"
)

// Decide approves or denies the request with a code as people type it. by is the actor, who is locked out after too many wrong codes.
// Repeating a decision is no error.
func (d *Service) Decide(ctx context.Context, code string, approve bool, by string) (pairings.Pairing, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.recount(ctx); err != nil {
		return pairings.Pairing{}, err
	}
	if d.locked(by) {
		return pairings.Pairing{}, ErrLocked
	}
	parsed, ok := ParseCode(code)
	if !ok {
		return pairings.Pairing{}, ErrCode // a typing error, not a guess: it cannot match
	}
	p, ok := d.find(parsed)
	if !ok {
		if err := d.wrong(ctx, by); err != nil {
			return p, err
		}
		return p, ErrCode
	}
	if err := d.right(ctx, by); err != nil {
		return p, err
	}
	return d.settle(ctx, p, approve, by)
}

// Refuse denies the request with an id, which owners get in a notice. It needs no code and counts no guesses, because it admits nobody.
func (d *Service) Refuse(ctx context.Context, id, by string) (pairings.Pairing, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.cfg.Now()
	for _, p := range d.rows {
		if p.ID == id && (p.State != pairings.Open || valid(p, now)) {
			return d.settle(ctx, p, false, by)
		}
	}
	return pairings.Pairing{}, ErrRequest
}

// settle answers an open request. d.mu is held.
func (d *Service) settle(ctx context.Context, p pairings.Pairing, approve bool, by string) (pairings.Pairing, error) {
	now := d.cfg.Now()
	after, event := pairings.Denied, Denied
	var replies []message.Reply
	if approve {
		after, event = pairings.Paired, Approved
		replies = append(replies, reply(p, 1, "", welcome))
	}
	switch {
	case p.State == after:
		return p, nil
	case p.State != pairings.Open:
		return p, ErrDecided
	}
	p.State, p.By, p.Decided, p.Until = after, by, now.UTC(), now.Add(quiet).UTC()
	if approve {
		p.Role, p.Until = least(d.cfg.Role()), time.Time{}
	}
	if err := d.put(ctx, p, append(replies, outcomes(p)...)...); err != nil {
		return p, err
	}
	d.cfg.Events.Publish(Happened{event, p.Sender})
	d.cfg.Log.Info("pairing", "sender", p.Sender, "request", p.ID, "state", p.State, "role", p.Role, "by", by)
	return p, nil
}

// least returns the role that an approval gives.
func least(configured string) string {
	if configured == route.Member {
		return route.Member
	}
	return route.Guest
}

// Revoke ends a pairing. It takes effect at once, even if the commit fails; then Revoke returns the error.
func (d *Service) Revoke(ctx context.Context, sender message.SenderKey, by string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	p, ok := d.rows[sender]
	if !ok || p.State != pairings.Paired {
		return ErrUnknown
	}
	now := d.cfg.Now()
	p.State, p.Role, p.By, p.Decided, p.Until = pairings.Revoked, "", by, now.UTC(), now.Add(quiet).UTC()
	p.Code, p.Expires = "", time.Time{}
	d.rows[sender] = p
	d.publish()
	err := d.put(ctx, p)
	if d.cfg.Turns != nil {
		d.cfg.Turns.StopFor(sender)
	}
	d.cfg.Events.Publish(Happened{Revoked, sender})
	d.cfg.Log.Info("pairing", "sender", sender, "state", p.State, "by", by)
	return err
}

// SetRole makes a paired sender a guest or a member.
func (d *Service) SetRole(ctx context.Context, sender message.SenderKey, role, by string) error {
	if role != route.Guest && role != route.Member {
		return ErrRole
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	p, ok := d.rows[sender]
	if !ok || p.State != pairings.Paired {
		return ErrUnknown
	}
	p.Role, p.By, p.Decided = role, by, d.cfg.Now().UTC()
	if err := d.put(ctx, p); err != nil {
		return err
	}
	d.cfg.Events.Publish(Happened{Raised, sender})
	d.cfg.Log.Info("pairing", "sender", sender, "role", role, "by", by)
	return nil
}

// Erase ends the pairing of a sender and deletes what is stored of his requests and his wrong codes. It is no error if there is nothing.
func (d *Service) Erase(ctx context.Context, sender message.SenderKey, by string) error {
	if err := d.Revoke(ctx, sender, by); err != nil && !errors.Is(err, ErrUnknown) {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.rows, sender)
	d.publish()
	return errors.Join(d.cfg.Store.DropPairing(context.WithoutCancel(ctx), sender), d.dropGuesses(ctx, string(sender)))
}
