package tui

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/gateway/client/link"
	"github.com/flynnhost/flynn/host/internal/jsonform"
	"github.com/flynnhost/flynn/host/tool/consent"
)

// armTime is how long a request is on the screen, without a key, before a key can answer it: a person who types when it appears means the
// input.
const armTime = 600 * time.Millisecond

// card is the requests of this conversation that wait for approval. The first is on the screen.
type card struct {
	open   []gateway.Approval
	serial int  // of the request on the screen
	armed  bool // its keys answer it
	scopes bool // the choice of scopes is shown
	told   map[string]bool
}

// choice is a way to answer a request.
type choice struct {
	key, scope, label string
	grant             bool
}

// take sets the requests, and returns whether another one is on the screen now and whether the one before was answered elsewhere.
func (c *card) take(list []gateway.Approval) (fresh, elsewhere bool) {
	before := c.first()
	c.open = list
	now := c.first()
	switch {
	case before != nil && (now == nil || now.ID != before.ID):
		elsewhere = true
	case now == nil || before != nil:
		return false, false
	}
	c.serial++
	c.armed, c.scopes = false, false
	return now != nil, elsewhere
}

func (c *card) first() *gateway.Approval {
	if len(c.open) == 0 {
		return nil
	}
	return &c.open[0]
}

// drop removes the first request, which was answered here.
func (c *card) drop() {
	c.open = c.open[1:]
	c.serial++
	c.armed, c.scopes = false, false
}

// tell reports whether a request that is too large for the screen has to be printed as a whole.
func (c *card) tell(id string) bool {
	if c.told == nil {
		c.told = map[string]bool{}
	}
	first := !c.told[id]
	c.told[id] = true
	return first
}

// choices returns the ways to grant the first request.
func (c *card) choices() []choice {
	a := c.first()
	list := []choice{{key: "1", label: "once: only this call", grant: true}}
	if a.MaySession {
		label := "session: " + a.SessionCovers
		if a.SessionShell != "" {
			label += " (as good as a shell: " + a.SessionShell + ")"
		}
		list = append(list, choice{key: "2", scope: string(consent.GrantSession), label: label, grant: true})
	}
	if a.MayStanding {
		list = append(list, choice{key: "3", scope: string(consent.GrantStanding), label: "standing: " + a.StandingCovers, grant: true})
	}
	return list
}

// answer returns the choice that a key stands for.
func (c *card) answer(key string) (choice, bool) {
	switch {
	case c.scopes:
		for _, ch := range c.choices() {
			if ch.key == key {
				return ch, true
			}
		}
	case key == "a":
		return choice{grant: true, label: "once"}, true
	}
	return choice{}, false
}

// lines lays out the first request: the command, where it runs, who asked.
func (c *card) lines(p paper) []string {
	a := c.first()
	_, args, err := jsonform.Canonical(a.Args)
	var out []string
	field := func(name, text string) {
		if strings.TrimSpace(text) != "" {
			out = append(out, p.text("  "+p.dim(p.short(name, 30)+": "), "    ", text)...)
		}
	}
	if command, ok := args["command"].(string); ok {
		out = append(out, p.command(command)...)
		delete(args, "command")
	}
	out = append(out, p.text("  ", "    ", a.Tool+" runs "+link.Place(a.Where))...)
	field("folder", a.Dir)
	field("asked by", strings.TrimSpace(a.Agent+asker(a)))
	if err != nil {
		field("arguments", string(a.Args))
	}
	for _, name := range slices.Sorted(maps.Keys(args)) {
		field(name, written(args[name]))
	}
	field("not shown, but followed", strings.Join(a.Unshown, "; "))
	field("limits", a.NotHeld)
	for _, r := range a.Reasons {
		field("because", r)
	}
	return out
}

// command lays out the command of a request, without escapes of JSON.
func (p paper) command(text string) []string {
	lines := p.text("  $ ", "    ", text)
	for i := range lines {
		lines[i] = p.bold(lines[i])
	}
	return lines
}

func asker(a *gateway.Approval) string {
	if a.Requester == "" {
		return ""
	}
	return " for " + string(a.Requester)
}

// written is an argument as a person reads it.
func written(v any) string {
	if s, ok := v.(string); ok {
		return s
	}
	data, err := jsonform.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(json.RawMessage(data))
}

// view lays out the card in at most room lines.
func (c *card) view(p paper, room int) []string {
	title := p.yellow(p.bold("Approve this call?"))
	if n := len(c.open); n > 1 {
		title += p.dim(fmt.Sprintf(" (1 of %d)", n))
	}
	keys := c.keys(p)
	body := c.lines(p)
	if most := max(room-len(keys)-1, 1); len(body) > most {
		note := p.dim(fmt.Sprintf("  … %d more lines: the whole request is above", len(body)-most+1))
		body = append(slices.Clone(body[:most-1]), p.firstLine(note))
	}
	return slices.Concat([]string{p.firstLine(title)}, body, keys)
}

// keys lays out how the card is answered.
func (c *card) keys(p paper) []string {
	a := c.first()
	switch {
	case !c.armed:
		return []string{p.firstLine(p.dim("  Tab: answer this request"))}
	case c.scopes:
		var out []string
		for _, ch := range c.choices() {
			out = append(out, p.text("  "+p.bold(ch.key)+" ", "    ", ch.label)...)
		}
		for _, why := range []string{a.NotSession, a.NotStanding} {
			if why != "" {
				out = append(out, p.note("  - "+why)...)
			}
		}
		return append(out, p.firstLine(p.bold("  d")+" deny · "+p.bold("Esc")+" back"))
	}
	return []string{p.firstLine("  " + p.bold("a") + " approve once · " + p.bold("s") + " scopes · " + p.bold("d") + " deny · " + p.bold("Esc") + " type")}
}
