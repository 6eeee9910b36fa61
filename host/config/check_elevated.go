package config

import (
	"fmt"
	"strings"

	"github.com/flynnhost/flynn/host/message"
)

// elevated checks that senders who may begin elevated mode are named in full: a pattern could match unexpected people.
func (c *checker) elevated() {
	at := keyPath{"elevated"}
	for i, sender := range c.cfg.Elevated.Senders {
		instance, id, ok := message.SenderKey(sender).Cut()
		if !ok || instance == "" || id == "" || strings.ContainsAny(sender, "*?[]{}!") {
			c.report(at.child("senders").index(i), fmt.Sprintf("%q is not the id of one sender", sender), `write one like "telegram:12345"`)
		}
	}
	if c.cfg.Elevated.Enabled && len(c.cfg.Elevated.Senders) == 0 {
		c.report(at.child("enabled"), "nobody may begin elevated mode", `name owners: senders = ["telegram:12345"]`)
	}
}
