package config

import (
	"fmt"
	"slices"
	"strings"

	"github.com/flynnhost/flynn/host/message"
)

// sessions checks the links. The people in a link read each other's messages, so their ids must be exact and unambiguous.
func (c *checker) sessions() {
	owner := map[string]string{} // of an id
	for _, name := range sorted(c.cfg.Sessions.Links) {
		at, ids := keyPath{"sessions", "links", name}, c.cfg.Sessions.Links[name]
		c.name(at, name)
		if len(ids) < 2 {
			c.report(at, "links fewer than two ids", `write ["instance:platform-id", "other:platform-id"]`)
		}
		for i, id := range ids {
			if !c.linked(at.index(i), id) {
				continue
			}
			switch other, taken := owner[id]; {
			case taken && other == name:
				c.report(at.index(i), fmt.Sprintf("%q stands here twice", id), "remove one")
			case taken:
				c.report(at.index(i), fmt.Sprintf("%q is in the link %q as well", id, other), "one id belongs to one link")
			}
			owner[id] = name
		}
	}
}

// linked checks one id of a link.
func (c *checker) linked(at keyPath, id string) bool {
	instance, name, found := message.SenderKey(id).Cut()
	switch {
	case strings.ContainsAny(id, "*?[{"):
		c.report(at, fmt.Sprintf("%q is a glob", id), "a link names each id in full")
	case !found || name == "":
		c.report(at, fmt.Sprintf("%q names no sender", id), `write "instance:platform-id"`)
	case BuiltinChannel(instance):
		c.report(at, fmt.Sprintf("%q is a built-in channel", instance), "its conversations are separate sessions and cannot be linked")
	case !c.knownChannel(instance):
		c.noChannel(at, instance, sorted(c.cfg.Channels))
	default:
		return true
	}
	return false
}

// selectable checks the agents that people may choose in chat.
func (c *checker) selectable() {
	for i, name := range c.cfg.Routing.Selectable {
		if slices.Index(c.cfg.Routing.Selectable, name) < i {
			c.report(keyPath{"routing", "selectable"}.index(i), fmt.Sprintf("%q stands here twice", name), "remove one")
		}
		if name == "default" {
			c.report(keyPath{"routing", "selectable"}.index(i), `"/agent default" undoes a choice and cannot choose an agent`, "give the agent another name")
		}
	}
}
