package main

import (
	"context"
	"sync"
	"time"

	"github.com/slack-go/slack"

	"github.com/flynnhost/flynn/sdk/channel"
)

const (
	maxPeople     = 2000
	personKept    = time.Hour
	failureKept   = time.Minute
	personTimeout = 1500 * time.Millisecond // Slack wants its ack within three seconds
)

// people remembers who is who, so that not every message asks Slack.
type people struct {
	client *slack.Client

	mu    sync.Mutex
	known map[string]person
}

// person is what users.info tells. team is empty when it did not.
type person struct {
	name, team string
	bot        bool
	roles      []string
	until      time.Time
}

func newPeople(c *slack.Client) *people { return &people{client: c, known: map[string]person{}} }

// get looks somebody up; what is not known is left empty.
func (p *people) get(ctx context.Context, id string) person {
	p.mu.Lock()
	who, ok := p.known[id]
	p.mu.Unlock()
	if ok && time.Now().Before(who.until) {
		return who
	}
	ctx, cancel := context.WithTimeout(ctx, personTimeout)
	defer cancel()
	u, err := p.client.GetUserInfoContext(ctx, id)
	if err != nil {
		who = person{until: time.Now().Add(failureKept)}
	} else {
		who = personOf(*u)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.known) >= maxPeople {
		p.forget()
	}
	p.known[id] = who
	return who
}

// forget makes room: what is outdated goes, and when that is not enough, all. p.mu is held.
func (p *people) forget() {
	now := time.Now()
	for id, who := range p.known {
		if now.After(who.until) {
			delete(p.known, id)
		}
	}
	if len(p.known) >= maxPeople {
		clear(p.known)
	}
}

func personOf(u slack.User) person {
	who := person{name: u.Profile.DisplayName, team: u.TeamID, bot: u.IsBot, until: time.Now().Add(personKept)}
	if who.name == "" {
		who.name = u.Profile.RealName
	}
	if who.name == "" {
		who.name = u.Name
	}
	for _, role := range []struct {
		is   bool
		name string
	}{
		{u.IsPrimaryOwner, "primary_owner"}, {u.IsOwner, "owner"}, {u.IsAdmin, "admin"}, {u.IsRestricted || u.IsUltraRestricted, "guest"},
	} {
		if role.is {
			who.roles = append(who.roles, role.name)
		}
	}
	return who
}

// name is what people see of somebody, or "".
func (p *people) name(ctx context.Context, id string) string { return p.get(ctx, id).name }

// sender tells who wrote a message. Somebody of another workspace has its id in front, and the rank that he has there is
// none here. When Slack does not say whose he is, his id begins with "?", which no rule for a member matches.
func (p *plugin) sender(ctx context.Context, m message) channel.Sender {
	if m.User == "" {
		return channel.Sender{ID: m.BotID, Name: m.Username, Bot: true}
	}
	own := p.me().team
	who := p.people.get(ctx, m.User)
	team := firstOf(who.team, m.UserTeam, m.Team)
	s := channel.Sender{ID: m.User, Name: who.name, Bot: who.bot || m.BotID != "" || m.User == "USLACKBOT"}
	switch team {
	case own:
		s.Roles = who.roles
	case "":
		s.ID = "?/" + m.User
	default:
		s.ID = team + "/" + m.User
	}
	return s
}

func firstOf(list ...string) string {
	for _, s := range list {
		if s != "" {
			return s
		}
	}
	return ""
}
