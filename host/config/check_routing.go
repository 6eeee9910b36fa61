package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/flynnhost/flynn/host/internal/glob"
	"github.com/flynnhost/flynn/host/message"
)

func (c *checker) routing() {
	r, at := c.cfg.Routing, keyPath{"routing"}
	for _, name := range sorted(r.Channels) {
		if !c.knownChannel(name) {
			c.noChannel(at.child("channels").child(name), name, c.cfg.ChannelNames())
		}
	}
	for _, pattern := range sorted(r.Senders) {
		c.sender(at.child("senders").child(pattern), pattern)
	}
}

// noChannel reports an instance of a channel that is not configured.
func (c *checker) noChannel(at keyPath, instance string, known []string) {
	hint := fmt.Sprintf("add [channels.%s]", instance)
	if near := Nearest(instance, known); near != "" {
		hint = fmt.Sprintf("did you mean %q? or %s", near, hint)
	}
	c.report(at, fmt.Sprintf("no channel %q", instance), hint)
}

func (c *checker) knownChannel(name string) bool { return slices.Contains(c.cfg.ChannelNames(), name) }

// approvals checks the conversations in which people are asked.
func (c *checker) approvals() {
	for i, where := range c.cfg.Approvals.Conversations {
		c.conversation(keyPath{"approvals", "conversations"}.index(i), where)
	}
}

// conversation checks the name of a conversation of a channel.
func (c *checker) conversation(at keyPath, where string) {
	k, found := message.ParseConversation(where)
	switch _, known := c.cfg.Channels[k.Channel]; {
	case !found || k.ID == "":
		c.report(at, fmt.Sprintf("%q names no conversation of a channel", where), `write "instance:conversation-id"`)
	case !known:
		c.noChannel(at, k.Channel, sorted(c.cfg.Channels))
	}
}

// sender checks an id "instance:platform-id" or a glob of such.
func (c *checker) sender(at keyPath, pattern string) {
	if !c.glob(at, pattern) {
		return
	}
	sender, found := message.ParseSender(pattern)
	switch open := strings.ContainsAny(sender.Channel, "*?[{"); {
	case open: // may match any instance
	case !found:
		c.report(at, fmt.Sprintf("%q names no channel", pattern), fmt.Sprintf(`write "instance:platform-id", such as "terminal:%s"`, pattern))
	case !c.knownChannel(sender.Channel):
		c.noChannel(at, sender.Channel, c.cfg.ChannelNames())
	case sender.ID == "":
		c.report(at, "empty id", fmt.Sprintf("write %q for everyone there", sender.Channel+":*"))
	}
}

func (c *checker) globs(at keyPath, patterns []string) {
	for i, pattern := range patterns {
		c.glob(at.index(i), pattern)
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
