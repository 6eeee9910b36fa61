package providers_test

import (
	"testing"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/model"
	"github.com/flynnhost/flynn/host/model/modeltest"
	"github.com/flynnhost/flynn/host/model/providers"
)

// BenchmarkCall is what one call costs the host: the Set, the provider, and for the vendors a loopback
// connection to the fake server, which runs in the same process.
func BenchmarkCall(b *testing.B) {
	server := modeltest.New(b)
	server.Script(modeltest.Reply{Text: "This is a short answer of some twenty tokens, streamed a few bytes at a time.", Input: 10, Output: 20})
	for _, name := range []string{"demo", "openai", "anthropic"} {
		cfg := config.Model{Provider: name, Model: "demo"}
		if name != "demo" {
			cfg = server.Config(name)
		}
		b.Run(name, func(b *testing.B) { benchmarkCall(b, cfg) })
	}
}

func benchmarkCall(b *testing.B, cfg config.Model) {
	set, err := model.NewSet(map[string]config.Model{"default": cfg}, model.Options{Providers: providers.All()})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = set.Close() }()
	req := request()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := set.Stream(b.Context(), "default", req, func(model.Delta) {}); err != nil {
			b.Fatal(err)
		}
	}
}
