package route

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/internal/glob"
	"github.com/flynnhost/flynn/host/message"
)

// load reads a configuration with the agents a, b, c, d and the channels irc, slack and discord; d is the default.
func load(t testing.TB, routing string) *config.Config {
	t.Helper()
	text := `
agent_configs = { a = {}, b = {}, c = {}, d = {} }
routing.default_agent = "d"
channels = { irc = { plugin = "irc" }, slack = { plugin = "slack" }, discord = { plugin = "discord" } }
` + routing
	path := filepath.Join(t.TempDir(), "flynn.toml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, err := config.Load(path, func(string) string { return t.TempDir() })
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

func TestResolve(t *testing.T) {
	table, findings := New(load(t, `
[routing.channels]
irc = "c"
[routing.senders]
"slack:*" = "c"
"slack:U0*" = "a"
"slack:U0*X" = "b"
"slack:U0AB" = "d"
"irc:?bc" = "a"
"irc:*bc" = "b"
"irc:nick[[]m]" = "a"
"discord:{1,22}/*" = "a"
"*:root" = "b"
`))
	if len(findings) != 0 {
		t.Errorf("findings: %v", findings)
	}
	tests := map[string]struct {
		channel, sender string
		agent           string
		tier            Tier
		rule            string
	}{
		"exact before glob":                 {"slack", "U0AB", "d", TierSender, "slack:U0AB"},
		"longest prefix":                    {"slack", "U0B", "a", TierGlob, "slack:U0*"},
		"more literals":                     {"slack", "U0X", "b", TierGlob, "slack:U0*X"},
		"star crosses slashes":              {"slack", "T1/U0", "c", TierGlob, "slack:*"},
		"star takes the empty id":           {"slack", "", "c", TierGlob, "slack:*"},
		"file order":                        {"irc", "abc", "a", TierGlob, "irc:?bc"},
		"second in file order":              {"irc", "aabc", "b", TierGlob, "irc:*bc"},
		"escaped bracket is an exact id":    {"irc", "nick[m]", "a", TierSender, "irc:nick[[]m]"},
		"longer prefix before other glob":   {"slack", "root", "c", TierGlob, "slack:*"},
		"glob over instances":               {"irc", "root", "b", TierGlob, "*:root"},
		"alternatives":                      {"discord", "22/9", "a", TierGlob, "discord:{1,22}/*"},
		"channel":                           {"irc", "x", "c", TierChannel, "irc"},
		"default":                           {"web", "me", "d", TierDefault, "default_agent"},
		"unknown channel goes to default":   {"none", "me", "d", TierDefault, "default_agent"},
		"letter case counts":                {"irc", "aBC", "c", TierChannel, "irc"},
		"a prefix of an exact id is not it": {"discord", "22", "d", TierDefault, "default_agent"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			m, ok := table.Resolve(test.channel, message.NewSenderKey(test.channel, test.sender))
			if !ok || m.Agent != test.agent || m.Tier != test.tier || m.Rule != test.rule {
				t.Errorf("resolved %+v, %v", m, ok)
			}
		})
	}
}

func TestResolveTellsTheLine(t *testing.T) {
	cfg := load(t, "[routing.senders]\n\n'irc:x' = 'a'\n'irc:y*' = 'b'\n")
	table, _ := New(cfg)
	for sender, line := range map[string]int{"irc:x": 7, "irc:yy": 8, "irc:z": 3} {
		if m, _ := table.Resolve("irc", message.SenderKey(sender)); m.Line != line {
			t.Errorf("%s is decided in line %d, want %d", sender, m.Line, line)
		}
	}
}

func TestResolveWithoutRules(t *testing.T) {
	table, _ := New(&config.Config{})
	if m, ok := table.Resolve("irc", "irc:x"); ok {
		t.Errorf("resolved %+v", m)
	}
}

// TestResolveIsTheSpecification compares the table with the rules of precedence written down plainly.
func TestResolveIsTheSpecification(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		key := rapid.StringOfN(rapid.SampledFrom([]rune("ab:*?")), 1, 6, -1)
		senders := rapid.MapOfN(key, rapid.SampledFrom([]string{"a", "b"}), 0, 8).Draw(t, "senders")
		cfg := &config.Config{
			Agents:  map[string]config.Agent{"a": {}, "b": {}, "d": {}},
			Routing: config.Routing{DefaultAgent: "d", Senders: senders, Channels: map[string]string{"c": "b"}},
		}
		table, _ := New(cfg)
		channel := rapid.SampledFrom([]string{"c", "e"}).Draw(t, "channel")
		sender := rapid.StringOfN(rapid.SampledFrom([]rune("ab:")), 0, 6, -1).Draw(t, "sender")
		got, _ := table.Resolve(channel, message.SenderKey(sender))
		if want := plainly(cfg, channel, sender); got.Rule != want {
			t.Errorf("%q on %q is decided by %q, want %q", sender, channel, got.Rule, want)
		}
	})
}

func plainly(cfg *config.Config, channel, sender string) string {
	if _, ok := cfg.Routing.Senders[sender]; ok {
		return sender
	}
	var matching []*glob.Pattern
	for pattern := range cfg.Routing.Senders {
		if p, err := glob.Compile(pattern); err == nil && p.Match(sender) {
			matching = append(matching, p)
		}
	}
	if len(matching) > 0 {
		return slices.MinFunc(matching, func(a, b *glob.Pattern) int {
			return cmp.Or(len(b.Prefix())-len(a.Prefix()), b.Literals()-a.Literals(), strings.Compare(a.String(), b.String()))
		}).String()
	}
	if _, ok := cfg.Routing.Channels[channel]; ok {
		return channel
	}
	return "default_agent"
}

func TestResolveAllocatesNothing(t *testing.T) {
	table, _ := New(many(20))
	if n := testing.AllocsPerRun(100, func() { table.Resolve("irc", "irc:nobody/at/all") }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// many is a configuration with n rules: half exact ids, half globs.
func many(n int) *config.Config {
	senders := map[string]string{}
	for i := range n {
		if i%2 == 0 {
			senders[fmt.Sprintf("irc:user%d", i)] = "a"
		} else {
			senders[fmt.Sprintf("irc:%c*team%d", 'a'+i%26, i)] = "a"
		}
	}
	return &config.Config{
		Agents:  map[string]config.Agent{"a": {}},
		Routing: config.Routing{DefaultAgent: "a", Senders: senders},
	}
}

func BenchmarkResolve(b *testing.B) {
	for _, n := range []int{20, 1000} {
		table, _ := New(many(n))
		for name, sender := range map[string]string{"exact": "irc:user2", "default": "irc:nobody/at/all", "glob": "irc:bees-team1"} {
			b.Run(fmt.Sprintf("rules=%d/%s", n, name), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					table.Resolve("irc", message.SenderKey(sender))
				}
			})
		}
	}
}
