package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/flynnhost/flynn/host/access"
	"github.com/flynnhost/flynn/host/config"
)

// TestExamplesGiveNoRightsToClaims loads every configuration of the examples, the pages and the READMEs. None may give the rights of an owner
// or a member to an id that the platform does not prove, nor to everybody who matches a glob of owners: people copy what they see.
func TestExamplesGiveNoRightsToClaims(t *testing.T) {
	checked := 0
	for where, text := range exampleConfigurations(t) {
		found, ok := unprovenRights(t, text)
		if !ok && (rightsGiven.MatchString(text) || strings.HasSuffix(where, ".toml")) {
			t.Errorf("%s cannot be loaded, so nobody can say to whom it gives rights: %v", where, found)
			continue
		}
		if !ok {
			continue
		}
		checked++
		for _, problem := range found {
			t.Errorf("%s: %s", where, problem)
		}
	}
	if checked < 20 {
		t.Errorf("only %d configurations were loaded", checked)
	}
}

var rightsGiven = regexp.MustCompile(`(?m)^\s*(owners|members|trust_senders)\s*=|\[sessions\.links\]`)

// exampleConfigurations are the texts of flynn.toml that the tree shows, by where they stand.
func exampleConfigurations(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	files, err := filepath.Glob(filepath.Join(pagesRoot, "examples/*/flynn.toml"))
	if err != nil || len(files) < 4 {
		t.Fatalf("the examples are %v (%v)", files, err)
	}
	for _, file := range append(files, filepath.Join(pagesRoot, "examples/flynn.reference.toml")) {
		all[file] = readText(t, file)
	}
	pages := docPages(t)
	for _, pattern := range []string{"examples/*/README.md", "plugins/*/README.md", "policies/*/README.md", "sdk/*/README.md"} {
		readmes, _ := filepath.Glob(filepath.Join(pagesRoot, pattern))
		for _, file := range readmes {
			blocks, err := blocksOf(strings.ReplaceAll(readText(t, file), "\n   ", "\n")) // those within lists too
			if err != nil {
				t.Errorf("%s: %v", file, err)
			}
			pages = append(pages, page{path: file, blocks: blocks})
		}
	}
	for _, p := range pages {
		for _, b := range p.blocks {
			if b.kind == "toml" {
				all[p.path+": "+strings.TrimSpace(b.text)[:min(40, len(strings.TrimSpace(b.text)))]] = whole(b.text)
			}
		}
	}
	return all
}

func readText(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// unprovenRights returns the rules of a configuration that give rights to somebody whom nothing proves. ok is false if it cannot be loaded.
func unprovenRights(t *testing.T, text string) (found []string, ok bool) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "examples", "one") // paths lead up from it
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range filesNamed(text) {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(strings.Repeat("x", 32)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(dir, "flynn.toml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, err := config.Load(path, pageEnvironment(dir))
	if err != nil {
		return []string{err.Error()}, false
	}
	if cfg.Plugins.DevPaths == nil {
		cfg.Plugins.DevPaths = map[string]string{}
	}
	for name, c := range cfg.Channels {
		manifest, err := filepath.Abs(filepath.Join(pagesRoot, "plugins", c.Plugin))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(manifest); err != nil {
			if rightsGiven.MatchString(text) {
				found = append(found, "nobody knows what the plugin of the channel "+name+" proves: it does not come with Flynn")
			}
			continue
		}
		cfg.Plugins.DevPaths[c.Plugin] = manifest
	}
	for _, w := range access.Warnings(cfg) {
		found = append(found, w.Error())
	}
	for _, rule := range cfg.Access.Owners {
		if strings.ContainsAny(rule, "*?[{") {
			found = append(found, "the rule "+rule+" makes owners of people whom it does not name")
		}
	}
	return found, true
}

// TestUnprovenRights shows that the test above finds what it looks for.
func TestUnprovenRights(t *testing.T) {
	for name, tt := range map[string]struct {
		text, want string
	}{
		"an account":         {"[channels.net]\nplugin = \"irc\"\naddress = \"a:6697\"\n[access]\nowners = [\"net:ann\"]\n", ""},
		"a nick":             {"[channels.net]\nplugin = \"irc\"\naddress = \"a:6697\"\nidentity = \"nick\"\n[access]\nowners = [\"net:ann\"]\n", "anybody who takes the name"},
		"a nick, as member":  {"[channels.net]\nplugin = \"irc\"\naddress = \"a:6697\"\nidentity = \"nick\"\n[access]\nmembers = [\"net:ann\"]\n", "anybody who takes the name"},
		"an unchecked mail":  {"[channels.m]\nplugin = \"email\"\nrequire_authenticated = false\n[access]\nowners = [\"m:a@b.org\"]\n", "anybody who takes the name"},
		"a plugin unknown":   {"[channels.x]\nplugin = \"mine\"\n[access]\nowners = [\"x:ann\"]\n", "does not come with Flynn"},
		"everybody an owner": {"[channels.tg]\nplugin = \"telegram\"\n[access]\nowners = [\"tg:*\"]\n", "whom it does not name"},
	} {
		t.Run(name, func(t *testing.T) {
			found, ok := unprovenRights(t, whole(tt.text))
			if got := strings.Join(found, "\n"); !ok || tt.want == "" && got != "" || !strings.Contains(got, tt.want) {
				t.Errorf("found %q (loaded %v), want %q", got, ok, tt.want)
			}
		})
	}
}
