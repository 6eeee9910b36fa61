package route

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/internal/glob"
	"github.com/flynnhost/flynn/host/message"
)

func TestLint(t *testing.T) {
	tests := map[string]struct {
		routing  string
		errors   []string
		warnings []string
	}{
		"clean": {routing: `senders = { "irc:a*" = "a", "irc:b" = "b" }`},
		"two spellings of one id": {
			routing: "[routing.senders]\n'irc:x' = 'a'\n'irc:[x]' = 'b'",
			errors:  []string{`:7: routing.senders."irc:[x]": two rules for the sender "irc:x" (line 6 says "a"; keep one)`},
			// A class of one plain letter is more likely a part of a nickname.
			warnings: []string{`:7: routing.senders."irc:[x]": brackets are read as a glob (if this is an id, write "irc:[[]x]")`},
		},
		"same id and agent": {
			routing:  "[routing.senders]\n'irc:*x' = 'a'\n'irc:[*]x' = 'b'\n'irc:[*][x]' = 'b'",
			warnings: []string{`:8: routing.senders."irc:[*][x]": brackets are read as a glob (if this is an id, write "irc:[[][*]][[]x]")`},
			errors:   []string{`:8: routing.senders."irc:[*][x]": rule stands twice (line 7 is for the same sender; keep one)`},
		},
		"glob behind the same glob": {
			routing: "[routing.senders]\n'irc:*' = 'a'\n'irc:**' = 'b'\n'irc:?*' = 'c'",
			errors: []string{
				`:7: routing.senders."irc:**": rule can never match (line 6, "irc:*", takes every message first)`,
				`:8: routing.senders."irc:?*": rule can never match (line 6, "irc:*", takes every message first)`,
			},
		},
		"narrower glob first": {routing: "[routing.senders]\n'irc:?' = 'a'\n'irc:*' = 'b'\n'irc:*x' = 'c'"},
		"channel behind its own glob": {
			routing: "[routing.senders]\n'irc:*' = 'a'\n[routing.channels]\nirc = 'b'\nslack = 'c'",
			errors:  []string{`:8: routing.channels.irc: rule can never match (line 6, "irc:*", takes every message first)`},
		},
		"channel behind a star": {
			routing: "[routing.senders]\n'*' = 'a'\n[routing.channels]\nirc = 'b'",
			errors:  []string{`:8: routing.channels.irc: rule can never match (line 6, "*", takes every message first)`},
		},
		"channel with a name like another": {routing: "[routing.senders]\n'irc:*' = 'a'\n[routing.channels]\nslack = 'b'"},
		"pasted ids": {
			routing: "[routing.senders]\n'irc:libera/nick[away]' = 'a'\n'irc:{me}x' = 'b'\n[access]\nmembers = ['irc:x', 'irc:y[m]*']",
			warnings: []string{
				`:6: routing.senders."irc:libera/nick[away]": brackets are read as a glob (if this is an id, write "irc:libera/nick[[]away]")`,
				`:7: routing.senders."irc:{me}x": brackets are read as a glob (if this is an id, write "irc:[{]me}x")`,
				`:9: access.members[1]: brackets are read as a glob (if this is an id, write "irc:y[[]m][*]")`,
			},
		},
		"meant classes": {routing: `senders = { "irc:bot[0-9]" = "a", "irc:[!x]" = "b", "irc:[[]x]" = "c", "irc:{x,y}" = "a" }`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if !strings.HasPrefix(test.routing, "[") {
				test.routing = "[routing]\n" + test.routing
				test.routing = strings.Replace(test.routing, "[routing]\nsenders", "routing.senders", 1)
			}
			cfg := load(t, test.routing)
			_, findings := New(cfg)
			var errors, warnings []string
			for _, f := range findings {
				if text := strings.TrimPrefix(f.Error.Error(), cfg.Path); f.Warning {
					warnings = append(warnings, text)
				} else {
					errors = append(errors, text)
				}
			}
			if got, want := strings.Join(errors, "\n"), strings.Join(test.errors, "\n"); got != want {
				t.Errorf("errors\n%s\nwant\n%s", got, want)
			}
			if got, want := strings.Join(warnings, "\n"), strings.Join(test.warnings, "\n"); got != want {
				t.Errorf("warnings\n%s\nwant\n%s", got, want)
			}
			if len(Check(cfg)) != len(test.errors) {
				t.Errorf("Check tells %v", Check(cfg))
			}
		})
	}
}

// TestShadowedNeverMatches: a rule that is reported as shadowed indeed decides about nobody.
func TestShadowedNeverMatches(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		key := rapid.StringOfN(rapid.SampledFrom([]rune("ab:*?")), 1, 5, -1)
		cfg := &config.Config{
			Agents: map[string]config.Agent{"x": {}},
			Routing: config.Routing{
				DefaultAgent: "x",
				Senders:      rapid.MapOfN(key, rapid.Just("x"), 1, 8).Draw(t, "senders"),
				Channels:     map[string]string{"a": "x", "b": "x"},
			},
		}
		table, findings := New(cfg)
		id := rapid.StringOfN(rapid.SampledFrom([]rune("ab:")), 0, 6, -1).Draw(t, "id")
		channel := rapid.SampledFrom([]string{"a", "b"}).Draw(t, "channel")
		m, _ := table.Resolve(channel, message.NewSenderKey(channel, id))
		section := map[Tier]string{TierSender: "senders", TierGlob: "senders", TierChannel: "channels"}[m.Tier]
		for _, f := range findings {
			if f.Problem == "rule can never match" && f.Key == config.KeyString("routing", section, m.Rule) {
				t.Errorf("%q on %q is decided by %+v, which was said never to match", id, channel, m)
			}
		}
	})
}

func TestEscape(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		id := rapid.StringOfN(rapid.SampledFrom([]rune("a*?[]{},!#^-é")), 1, 8, -1).Draw(t, "id")
		key := Escape(id)
		if got, ok := literalOf(key); !ok || got != id {
			t.Errorf("%q was escaped to %q, which means %q, %v", id, key, got, ok)
		}
		p, err := glob.Compile(key)
		if err != nil || !p.Match(id) || looksPasted(key) {
			t.Errorf("%q was escaped to %q: %v", id, key, err)
		}
	})
}

// FuzzLiteral: what literalOf calls literal matches that id alone.
func FuzzLiteral(f *testing.F) {
	for _, key := range []string{"irc:x", "irc:[[]m]", "[]]", "[!]", "[^]", "[!]]", "a[b", "{a}", "[a-z]", "[", "[é]"} {
		f.Add(key, "irc:x")
	}
	f.Fuzz(func(t *testing.T, key, other string) {
		looksPasted(key)
		p, err := glob.Compile(key)
		if err != nil {
			return
		}
		id, ok := literalOf(key)
		if !ok {
			return
		}
		if !p.Match(id) {
			t.Errorf("%q was read as %q, which the glob does not match", key, id)
		}
		if other != id && p.Match(other) {
			t.Errorf("%q was read as %q, but the glob matches %q as well", key, id, other)
		}
	})
}
