package host

import (
	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/config/edit"
	"testing"
	"time"
)

// The tests of this file have hosts that share a store, and a person who changes the configuration of one of them.

func TestSmoke(t *testing.T) {
	p := newParts(t, "", "a", "b", "c")
	began := time.Now()
	h := p.hosts["a"]
	m, err := h.editor.Edit(t.Context(), author, setting(7, "limits", "sender_sessions"))
	if err != nil {
		t.Fatal(err)
	}
	t.Log(time.Since(began), m.Hosts)
	for _, m := range p.hosts {
		p.eventually("has it", func() bool { return m.current.Config().Limits.SenderSessions == 7 })
		p.works(m)
	}
	t.Log(time.Since(began))
}

var author = edit.Author{By: "web:owner", What: "a test"}

// setting is an edit of one key.
func setting(value any, key ...string) func(*edit.File, *config.Config) error {
	return func(f *edit.File, _ *config.Config) error { return f.Set(value, key...) }
}
