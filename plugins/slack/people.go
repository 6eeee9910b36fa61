package main

import (
	"cmp"
	"context"
	"time"

	"github.com/slack-go/slack"

	"github.com/flynnhost/flynn/sdk/cache"
	"github.com/flynnhost/flynn/sdk/channel"
)

const (
	maxPeople     = 2000
	personKept    = time.Hour
	failureKept   = time.Minute
	personTimeout = 1500 * time.Millisecond // Slack requires its ack within three seconds
)

// people caches users.info, so that not every message asks Slack.
type people struct {
	client *slack.Client
	known  cache.Map[string, person]
}

// person is what users.info returns. Its fields are empty when Slack did not answer.
type person struct {
	name, team string
	bot        bool
	roles      []string
}

func newPeople(c *slack.Client) *people {
	return &people{client: c, known: cache.Map[string, person]{Most: maxPeople}}
}

// get looks a person up.
func (p *people) get(ctx context.Context, id string) person {
	if who, ok := p.known.Get(id); ok {
		return who
	}
	ctx, cancel := context.WithTimeout(ctx, personTimeout)
	defer cancel()
	u, err := p.client.GetUserInfoContext(ctx, id)
	if err != nil {
		p.known.Set(id, person{}, failureKept)
		return person{}
	}
	who := personOf(*u)
	p.known.Set(id, who, personKept)
	return who
}

func personOf(u slack.User) person {
	who := person{name: cmp.Or(u.Profile.DisplayName, u.Profile.RealName, u.Name), team: u.TeamID, bot: u.IsBot}
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

// name returns a person's display name, or "".
func (p *people) name(ctx context.Context, id string) string { return p.get(ctx, id).name }

// sender returns who wrote a message. The id of a person of another workspace begins with that workspace's id, and ranks there do not count
// here. When Slack does not name the workspace, the id begins with "?", which no rule for a member matches.
func (p *plugin) sender(ctx context.Context, m message) channel.Sender {
	if m.User == "" {
		return channel.Sender{ID: m.BotID, Name: m.Username, Bot: true}
	}
	own := p.me().team
	who := p.people.get(ctx, m.User)
	team := cmp.Or(who.team, m.UserTeam, m.Team)
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
