package config

import (
	"errors"
	"fmt"
	"strings"

	"github.com/flynnhost/flynn/host/glob"
)

func (c *checker) routing() {
	r, at := c.cfg.Routing, keyPath{"routing"}
	if r.DefaultAgent == "" && len(c.cfg.Agents) > 0 {
		c.report(at.child("default_agent"), "missing", fmt.Sprintf("write default_agent = %q under [routing]", sorted(c.cfg.Agents)[0]))
	}
	for _, name := range sorted(r.Channels) {
		if !c.knownChannel(name) {
			c.report(at.child("channels").child(name), fmt.Sprintf("no channel %q", name), didYouMean(name, c.cfg.ChannelNames()))
		}
	}
	for _, pattern := range sorted(r.Senders) {
		c.sender(at.child("senders").child(pattern), pattern)
	}
}

func (c *checker) knownChannel(name string) bool {
	for _, known := range c.cfg.ChannelNames() {
		if name == known {
			return true
		}
	}
	return false
}

// approvals checks where people are asked.
func (c *checker) approvals() {
	for i, where := range c.cfg.Approvals.Conversations {
		at := keyPath{"approvals", "conversations"}.index(i)
		instance, id, found := strings.Cut(where, ":")
		switch _, known := c.cfg.Channels[instance]; {
		case !found || id == "":
			c.report(at, fmt.Sprintf("%q names no conversation of a channel", where), `write "instance:conversation-id"`)
		case !known:
			c.report(at, fmt.Sprintf("no channel %q", instance), didYouMean(instance, sorted(c.cfg.Channels)))
		}
	}
}

// sender checks an id "instance:platform-id" or a glob of such.
func (c *checker) sender(at keyPath, pattern string) {
	if !c.glob(at, pattern) {
		return
	}
	instance, id, found := strings.Cut(pattern, ":")
	switch open := strings.ContainsAny(instance, "*?[{"); {
	case open: // may match any instance
	case !found:
		c.report(at, fmt.Sprintf("%q names no channel", pattern), fmt.Sprintf(`write "instance:platform-id", such as "terminal:%s"`, pattern))
	case !c.knownChannel(instance):
		c.report(at, fmt.Sprintf("no channel %q", instance), didYouMean(instance, c.cfg.ChannelNames()))
	case id == "":
		c.report(at, "empty id", fmt.Sprintf("write %q for everyone there", instance+":*"))
	}
}

// glob reports a pattern that does not compile.
func (c *checker) glob(at keyPath, pattern string) bool {
	if pattern == "" {
		c.report(at, "empty pattern", `write an id, or "*" for all`)
		return false
	}
	if _, err := glob.Compile(pattern); err != nil {
		if inner := errors.Unwrap(err); inner != nil {
			err = inner // the key shows the pattern
		}
		problem, hint, _ := strings.Cut(err.Error(), "; ")
		c.report(at, "bad pattern: "+problem, hint)
		return false
	}
	return true
}
