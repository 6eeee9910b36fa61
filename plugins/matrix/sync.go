package main

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/flynnhost/flynn/sdk/channel"
)

// batch is the response to a sync: what has happened since the last one.
type batch struct {
	Next  string `json:"next_batch"`
	Rooms struct {
		Join   map[string]joined  `json:"join"`
		Invite map[string]invited `json:"invite"`
	} `json:"rooms"`
}

type joined struct {
	Summary struct {
		Members *int `json:"m.joined_member_count"`
	} `json:"summary"`
	Timeline struct {
		Events  []event `json:"events"`
		Limited bool    `json:"limited"`
		Before  string  `json:"prev_batch"`
	} `json:"timeline"`
}

type invited struct {
	State struct {
		Events []event `json:"events"`
	} `json:"invite_state"`
}

// filter leaves out what is not used; a batch stays small.
const filter = `{"presence":{"types":[]},"account_data":{"types":[]},"room":{"ephemeral":{"types":[]},"account_data":{"types":[]},` +
	`"state":{"types":["m.room.member"],"lazy_load_members":true},"timeline":{"limit":50}}}`

// sinceKey is the key of the point up to which the host has everything.
const sinceKey = "since"

// follow syncs until ctx ends or the homeserver fails.
func (p *plugin) follow(ctx context.Context, in channel.Inbox) error {
	since, known, err := p.host.Get(ctx, sinceKey)
	if err != nil {
		return err
	}
	if known {
		p.show(in) // the first poll may take its whole time
	}
	for {
		b, err := p.sync(ctx, string(since))
		if err != nil {
			return err
		}
		if known { // messages before Flynn's first sync are not for it
			if err := p.take(ctx, in, b, string(since)); err != nil {
				return err
			}
		}
		p.accept(ctx, b)
		p.show(in)
		since, known = []byte(b.Next), true
		if err := p.host.Set(ctx, sinceKey, since); err != nil {
			return err
		}
	}
}

// sync requests the next batch. The first one only determines the current position.
func (p *plugin) sync(ctx context.Context, since string) (batch, error) {
	poll := time.Duration(p.settings.SyncSeconds) * time.Second
	query := url.Values{"filter": {filter}}
	if since != "" {
		query.Set("since", since)
		query.Set("timeout", strconv.FormatInt(poll.Milliseconds(), 10))
	}
	ctx, cancel := context.WithTimeout(ctx, poll+callTimeout)
	defer cancel()
	var b batch
	err := p.client.long(ctx, http.MethodGet, v3+"/sync", query, nil, &b)
	if err == nil && b.Next == "" {
		err = errors.New("the homeserver's sync has no next_batch")
	}
	return b, err
}

// take delivers the events of a batch, those of one room in order, and returns when the host has all of them.
func (p *plugin) take(ctx context.Context, in channel.Inbox, b batch, since string) error {
	for id, r := range b.Rooms.Join {
		events, err := p.eventsOf(ctx, id, r, since)
		if err == nil {
			err = channel.DeliverAll(ctx, in, events)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// eventsOf returns the events of one room in a batch, with those that the batch leaves out.
func (p *plugin) eventsOf(ctx context.Context, id string, r joined, since string) (list []channel.Event, err error) {
	events := r.Timeline.Events
	if r.Timeline.Limited {
		missed, err := p.missed(ctx, id, r.Timeline.Before, since)
		if err != nil {
			return nil, err
		}
		events = append(missed, events...)
	}
	if r.Summary.Members != nil {
		p.members.Set(id, *r.Summary.Members, 0)
	}
	for _, e := range events {
		switch e.Type {
		case "m.room.encrypted":
			p.encrypted(id)
		case "m.room.member":
			p.members.Delete(id)
		}
		if out, ok := p.event(ctx, id, e); ok {
			list = append(list, out)
		}
	}
	return list, nil
}

// maxMissed bounds the events of one room that are fetched after an absence.
const maxMissed = 1000

// missed fetches the events between the last batch and this one, oldest first.
func (p *plugin) missed(ctx context.Context, id, from, since string) ([]event, error) {
	var out []event
	for len(out) < maxMissed && from != "" {
		var page struct {
			Chunk []event `json:"chunk"`
			End   string  `json:"end"`
		}
		query := url.Values{"dir": {"b"}, "from": {from}, "to": {since}, "limit": {"100"}}
		if err := p.client.call(ctx, http.MethodGet, room(id, "messages"), query, nil, &page); err != nil {
			return nil, err
		}
		out = append(out, page.Chunk...)
		if len(page.Chunk) == 0 || page.End == from {
			break
		}
		from = page.End
	}
	if len(out) >= maxMissed {
		p.log.Warn("a room has more missed messages than are fetched", "room", id, "fetched", len(out))
	}
	slices.Reverse(out)
	return out, nil
}

// accept joins the rooms to which the configured people invite. If joining fails, the invitation is in the next full sync again.
func (p *plugin) accept(ctx context.Context, b batch) {
	for id, r := range b.Rooms.Invite {
		by := inviter(r.State.Events, p.settings.UserID)
		if !p.settings.invited(by) {
			p.log.Info("invitation is not accepted", "room", id, "by", by)
			continue
		}
		if err := p.client.call(ctx, http.MethodPost, room(id, "join"), nil, struct{}{}, nil); err != nil {
			p.log.Warn("join room", "room", id, "error", err)
		}
	}
}

// inviter returns the person who invited us.
func inviter(events []event, us string) string {
	for _, e := range events {
		var c struct {
			Membership string `json:"membership"`
		}
		if e.Type == "m.room.member" && e.StateKey != nil && *e.StateKey == us && json.Unmarshal(e.Content, &c) == nil && c.Membership == "invite" {
			return e.Sender
		}
	}
	return ""
}
