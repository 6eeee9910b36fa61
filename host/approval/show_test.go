package approval

import (
	"strings"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/store"
)

func TestTextShowsTheWholeCall(t *testing.T) {
	now := time.Now()
	base := store.Approval{
		ID: "ABC", Agent: "coder", Requester: "irc:bob", Tool: "shell.exec", Where: "host", Dir: "/work", Args: []byte(`{"command":"ls"}`),
		Reasons: []string{"guard: commands ask"}, Expires: now.Add(15 * time.Minute),
	}
	for _, c := range []struct {
		name      string
		change    func(*store.Approval)
		has, lack []string
	}{
		{"everything", func(*store.Approval) {}, []string{`{"command":"ls"}`, "coder", "irc:bob", "/work", "host", "guard: commands ask", "/approve ABC", "15 minutes"}, nil},
		{"a fence in the arguments", func(a *store.Approval) { a.Args = []byte("{\"command\":\"```\"}") }, []string{"\n````\n"}, nil},
		{"characters that hide", func(a *store.Approval) { a.Args = []byte("{\"command\":\"ls \u202e\u200b\x1b[2K\"}") }, []string{`\u202e\u200b\u001b`}, []string{"\u202e", "\x1b"}},
		{"too long", func(a *store.Approval) { a.Args = []byte(`"` + strings.Repeat("x", 5000) + `"`) }, []string{"too many to be shown", "web page"}, []string{"/approve", "xxx"}},
		{"markup in a name", func(a *store.Approval) { a.Requester = "irc:[x](http://evil)`" }, []string{`\[x](http://evil)'`}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := base
			c.change(&a)
			text := Text(a, Offer{}, now)
			for _, s := range c.has {
				if !strings.Contains(text, s) {
					t.Errorf("%q is not in\n%s", s, text)
				}
			}
			for _, s := range c.lack {
				if strings.Contains(text, s) {
					t.Errorf("%q is in\n%s", s, text)
				}
			}
		})
	}
}
