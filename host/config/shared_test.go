package config

import (
	"os"
	"path/filepath"
	"testing"
)

func TestSharedDigest(t *testing.T) {
	load := func(text string) string {
		t.Helper()
		folder := t.TempDir()
		for _, name := range []string{"p.wasm", "q.wasm"} {
			if err := os.WriteFile(filepath.Join(folder, name), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		c, err := LoadText(filepath.Join(folder, "flynn.toml"), []byte(text), func(string) string { return folder })
		if err != nil {
			t.Fatal(err)
		}
		if c.SharedDigest() == "" {
			t.Fatal("there is no digest")
		}
		return c.SharedDigest()
	}
	const base = "[routing]\ndefault_agent = \"a\"\n[agent_configs.a]\nsystem_prompt = \"s\"\n[[policies]]\nname = \"p\"\npath = \"p.wasm\"\nkinds = [\"tool\"]\n" +
		"[channels.irc]\nplugin = \"irc\"\nserver = \"one\"\n"
	want := load(base)
	for name, more := range map[string]string{
		"nothing":            "",
		"a comment":          "# é\n",
		"where the store is": "[store]\ndir = \"elsewhere\"\nurl_env = \"URL\"\n[cluster]\nhost = \"a\"\n",
		"the gateway":        "[gateway]\nlisten = \"127.0.0.1:1\"\norigins = [\"https://a.example\"]\n",
		"where plugins are":  "[plugins]\ndir = \"elsewhere\"\n",
		"a default":          "[limits]\n",
	} {
		if load(base+more) != want {
			t.Errorf("%s makes a difference", name)
		}
	}
	for name, more := range map[string]string{
		"a key of a plugin":    "nick = \"flynn\"\n",
		"an owner":             "[access]\nowners = [\"irc:ann\"]\n",
		"the age of messages":  "[store]\nmax_age_hours = 1\n",
		"another agent":        "[agent_configs.b]\nsystem_prompt = \"s\"\n",
		"a path in the folder": "[[policies]]\nname = \"q\"\npath = \"q.wasm\"\nkinds = [\"tool\"]\n",
	} {
		if load(base+more) == want {
			t.Errorf("%s makes no difference", name)
		}
	}
}
