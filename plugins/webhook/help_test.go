package main

import (
	"context"
	"os"
	"testing"

	"github.com/BurntSushi/toml"
)

// canceled is a context that has ended: what is there counts, without waiting.
func canceled(t *testing.T) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}

func TestManifestAgrees(t *testing.T) {
	text, err := os.ReadFile("plugin.toml")
	if err != nil {
		t.Fatal(err)
	}
	var m struct {
		Name, Version string
		Channel       map[string]any
	}
	if err := toml.Unmarshal(text, &m); err != nil {
		t.Fatal(err)
	}
	d := (&plugin{}).Describe()
	want := map[string]any{"max_text": int64(d.Capabilities.MaxTextRunes), "idempotent": d.Capabilities.Idempotent, "markdown": d.Capabilities.Markdown, "senders": d.Capabilities.Senders.String()}
	if m.Name != d.Name || m.Version != d.Version || len(m.Channel) != len(want) {
		t.Errorf("plugin.toml has %+v, Describe %+v", m, d)
	}
	for key, value := range want {
		if m.Channel[key] != value {
			t.Errorf("channel.%s is %v, Describe says %v", key, m.Channel[key], value)
		}
	}
}
