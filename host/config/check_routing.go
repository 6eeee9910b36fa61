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
	instance, id, found := message.ConversationKey(where).Cut()
	switch _, known := c.cfg.Channels[instance]; {
	case !found || id == "":
		c.report(at, fmt.Sprintf("%q names no conversation of a channel", where), `write "instance:conversation-id"`)
	case !known:
		c.noChannel(at, instance, sorted(c.cfg.Channels))
	}
}

// sender checks an id "instance:platform-id" or a glob of such.
func (c *checker) sender(at keyPath, pattern string) {
	if !c.glob(at, pattern) {
		return
	}
	instance, id, found := message.SenderKey(pattern).Cut()
	switch open := strings.ContainsAny(instance, "*?[{"); {
	case open: // may match any instance
	case !found:
		c.report(at, fmt.Sprintf("%q names no channel", pattern), fmt.Sprintf(`write "instance:platform-id", such as "terminal:%s"`, pattern))
	case !c.knownChannel(instance):
		c.noChannel(at, instance, c.cfg.ChannelNames())
	case id == "":
		c.report(at, "empty id", fmt.Sprintf("write %q for everyone there", instance+":*"))
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
