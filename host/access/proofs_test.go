package access

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/route"
)

// dir writes plugins that differ in what they say about senders.
func dir(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	for name, channel := range map[string]string{
		"proving": `senders = "proved"`, "nicks": "senders = \"proved\"\nclaimed_when = { identity = \"nick\", checked = false }",
		"claiming": `senders = "claimed"`, "walls": `senders = "none"`, "older": "markdown = true",
	} {
		manifest := fmt.Sprintf("manifest = 1\nname = %q\nversion = \"1.0.0\"\nkinds = [\"channel\"]\nprotocols = [1]\nexec = { any = [\"bin/none\"] }\n[channel]\n%s\n",
			name, channel)
		if err := os.Mkdir(filepath.Join(root, name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, name, "plugin.toml"), []byte(manifest), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func load(t *testing.T, text string) *config.Config {
	t.Helper()
	plugins := dir(t)
	text = "[agent_configs.a]\n[routing]\ndefault_agent = \"a\"\n[models.default]\nprovider = \"demo\"\n" + text + "\n[plugins.dev_paths]\n"
	for _, name := range []string{"proving", "nicks", "claiming", "walls", "older"} {
		text += fmt.Sprintf("%s = %q\n", name, filepath.Join(plugins, name))
	}
	path := filepath.Join(t.TempDir(), "flynn.toml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := config.Load(path, os.Getenv)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

const channels = `
[channels.good]
plugin = "proving"
[channels.net]
plugin = "nicks"
[channels.free]
plugin = "nicks"
identity = "nick"
[channels.unchecked]
plugin = "nicks"
checked = false
[channels.said]
plugin = "claiming"
[channels.wall]
plugin = "walls"
[channels.old]
plugin = "older"
[channels.trusted]
plugin = "older"
trust_senders = true
[channels.gone]
plugin = "not-there"
`

// TestRightsNeedProof writes the same owner, member and link for every channel; only a proof, or the operator's word, makes them count.
func TestRightsNeedProof(t *testing.T) {
	c := load(t, "[access]\nowners = [\"*:ann\"]\nmembers = [\"*:bob\"]\n"+channels)
	var proofs Proofs
	roles := route.NewRoles(c.Access, proofs.Under(c))
	for instance, want := range map[string]message.SenderProof{
		"good": message.SendersProved, "net": message.SendersProved, "free": message.SendersAccepted, "unchecked": message.SendersAccepted,
		"said": message.SendersClaimed, "wall": message.SendersUnproved, "old": message.SendersUnsaid, "trusted": message.SendersAccepted,
		"gone": message.SendersUnsaid, "not-configured": message.SendersUnsaid,
	} {
		if got := roles.Proof(instance, message.NewSenderKey(instance, "ann")); got != want {
			t.Errorf("%s proves %q, want %q", instance, got, want)
		}
		owner, member := route.Guest, route.Guest
		if want.Counts() {
			owner, member = route.Owner, route.Member
		}
		if a, b := roles.Of(instance, message.NewSenderKey(instance, "ann")), roles.Of(instance, message.NewSenderKey(instance, "bob")); a != owner || b != member {
			t.Errorf("on %s ann is %s and bob is %s", instance, a, b)
		}
		if got := roles.Of(instance, message.NewSenderKey(instance, "?ann")); got != route.Guest {
			t.Errorf("on %s ?ann is %s", instance, got)
		}
	}
}

// TestARunningPluginIsBelievedBeforeAnInstalledOne: it may be another version, or have been installed after the start.
func TestARunningPluginIsBelievedBeforeAnInstalledOne(t *testing.T) {
	c := load(t, channels)
	var proofs Proofs
	under := proofs.Under(c)
	end := proofs.Serving("gone", message.SendersProved)
	weaker := proofs.Serving("good", message.SendersClaimed)
	if a, b := under("gone"), under("good"); a != message.SendersProved || b != message.SendersClaimed {
		t.Errorf("running: %q and %q", a, b)
	}
	end()
	weaker()
	if a, b := under("gone"), under("good"); a != message.SendersUnsaid || b != message.SendersProved {
		t.Errorf("ended: %q and %q", a, b)
	}
}

func TestWarnings(t *testing.T) {
	for name, test := range map[string]struct {
		rules string
		want  []string // parts of each warning, in order
	}{
		"nothing to warn about":   {"[access]\nowners = [\"good:ann\", \"net:ann\", \"gone:ann\"]\nmembers = [\"good:*\"]\n", nil},
		"a nick that was chosen":  {"[access]\nowners = [\"free:ann\"]\n", []string{`"free:ann" gives its rights to anybody`}},
		"a check that is off":     {"[access]\nmembers = [\"unchecked:*@x.org\"]\n", []string{`"unchecked:*@x.org" gives its rights to anybody`}},
		"a claim":                 {"[access]\nowners = [\"said:ann\"]\n", []string{`"said:ann" gives no rights on channel "said"`}},
		"a wall":                  {"[access]\nmembers = [\"wall:x\"]\n", []string{`"wall:x" gives no rights on channel "wall"`}},
		"an older plugin":         {"[access]\nowners = [\"old:ann\"]\n", []string{`its plugin older does not say`}},
		"an older one, trusted":   {"[access]\nowners = [\"trusted:ann\"]\n", []string{`"trusted:ann" gives its rights to anybody`}},
		"a glob over all":         {"[access]\nmembers = [\"*\"]\n", []string{`"free"`, `"old"`, `"said"`, `"trusted"`, `"unchecked"`, `"wall"`}},
		"a glob over two":         {"[access]\nowners = [\"{free,good}:ann\"]\n", []string{`"free"`, `"old"`, `"said"`, `"trusted"`, `"unchecked"`, `"wall"`}},
		"a glob of one's people":  {"[access]\nmembers = [\"fr*:ann\"]\n", []string{`"fr*:ann" gives its rights`}},
		"a link":                  {"[sessions.links]\nann = [\"good:ann\", \"free:ann\"]\n", []string{`"free:ann" gives its rights`}},
		"a link that has no hold": {"[sessions.links]\nann = [\"good:ann\", \"said:ann\"]\n", []string{`"said:ann" gives no rights`}},
	} {
		t.Run(name, func(t *testing.T) {
			got := Warnings(load(t, test.rules+channels))
			if len(got) != len(test.want) {
				t.Fatalf("%d warnings, want %d: %v", len(got), len(test.want), got)
			}
			for i, want := range test.want {
				if !strings.Contains(got[i].Problem, want) || got[i].Line == 0 || got[i].Hint == "" {
					t.Errorf("warning %d is %v, want %s", i, got[i], want)
				}
			}
		})
	}
}
