package config

import (
	"fmt"
)

func (c *checker) channels() {
	for _, name := range sorted(c.cfg.Channels) {
		channel, at := c.cfg.Channels[name], keyPath{"channels", name}
		c.required(at.child("plugin"), channel.Plugin, `"telegram" or another installed plugin`)
		for _, key := range sorted(channel.refs) {
			c.channelSecret(at.child(key), channel)
		}
	}
}

func (c *checker) channelSecret(at keyPath, channel Channel) {
	key := at.last()
	stem := secretStem(key)
	if _, ok := channel.Settings[stem]; ok {
		c.report(at, "two values of one key", fmt.Sprintf("keep %s or %s", stem, key))
		return
	}
	if _, ok := channel.refs[stem+"_env"]; ok && key == stem+fileSuffix {
		c.report(at, "two sources of one secret", fmt.Sprintf("keep %s_env or %s_file", stem, stem))
		return
	}
	var secret Secret
	if key == stem+"_env" {
		secret = c.fromEnv(at, channel.refs[key], channel.Enabled)
	} else {
		secret = c.fromFile(at, channel.refs[key], channel.Enabled)
	}
	if secret != "" {
		channel.Secrets[stem] = secret
	}
}
