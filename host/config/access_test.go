package config

import "testing"

func TestAccessOn(t *testing.T) {
	c := &Config{
		Access: Access{Mode: AccessPair, Groups: "addressed", RatePerMinute: 7},
		Channels: map[string]Channel{
			"plain": {}, "quiet": {Access: AccessAllowlist}, "busy": {Access: AccessOpen, AccessGroups: "all"},
		},
	}
	for _, tt := range []struct{ name, channel, mode, groups string }{
		{"what stands in [access]", "plain", AccessPair, "addressed"},
		{"a mode of its own", "quiet", AccessAllowlist, "addressed"},
		{"groups of its own", "busy", AccessOpen, "all"},
		{"a built-in channel gives no codes", "openai", AccessAllowlist, "addressed"},
		{"a local frontend neither", "web", AccessAllowlist, "addressed"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := c.AccessOn(tt.channel)
			if got.Mode != tt.mode || got.Groups != tt.groups || got.RatePerMinute != 7 {
				t.Errorf("%+v", got)
			}
		})
	}
}
