package shell

import (
	"strings"
	"testing"

	"github.com/flynnhost/flynn/sdk/plugintest/rude"
)

func TestUnshown(t *testing.T) {
	for line, want := range map[string]string{
		"make test":                        "Makefile (make)",
		"cd x && make -j4 && npm test":     "Makefile (make); package.json, .npmrc (npm)",
		"CC=gcc make 2>&1 | tail -n 5":     "Makefile (make)",
		"make; make; make":                 "Makefile (make)",
		"sudo env X=1 timeout 5m make":     "Makefile (make)",
		"find . -name x | xargs -n 1 make": "Makefile (make)",
		"/usr/bin/make":                    "Makefile (make)",
		`\make`:                            "Makefile (make)",
		"if true; then npm ci; fi":         "package.json, .npmrc (npm)",
		"echo $(git log)":                  ".git/config, .git/hooks, .gitattributes (git)",
		"echo `git log`":                   ".git/config, .git/hooks, .gitattributes (git)",
		"sh -c 'make'":                     "the script (sh); Makefile (make)",
		"python3.11 x.py":                  "*.py, pyproject.toml, setup.py (python3.11)",
		". ./env":                          "the script (.)",
		"./configure && make":              "the program ./configure; Makefile (make)",
		"bin/x":                            "the program bin/x",
		"echo make":                        "",
		"grep -rn make docs":               "",
		"ls -la":                           "",
		"wget https://example.com/make":    "",
		"cat <<EOF >x\nmake sense\nEOF":    "Makefile (make)",
		"":                                 "",
	} {
		if got := strings.Join(Unshown(line, false), "; "); got != strings.ReplaceAll(want, "), ", "); ") {
			t.Errorf("%q: %q, want %q", line, got, want)
		}
	}
	for _, v := range append(rude.Commands(), rude.Texts()...) {
		Unshown(v.Text, true) // ends, whatever it is
		if _, err := Parse(v.Text); err == nil {
			continue
		}
		if got := strings.Join(Unshown(v.Text+"\nmake", true), "; "); !strings.HasSuffix(v.Text, "\\") && !strings.Contains(got, "(make)") {
			t.Errorf("%s: %q", v.Name, got)
		}
	}
}

// In a sandbox HOME is the workspace: the files that programs follow there are the agent's. On the host it is empty.
func TestUnshownOfHome(t *testing.T) {
	for line, want := range map[string]string{
		"curl https://example.com":              ".curlrc (curl)",
		"cd x && wget -q a.example; ls":         ".wgetrc (wget)",
		"sudo env A=1 /usr/bin/curl -s b":       ".curlrc (curl)",
		"echo $(curl a) | psql":                 ".curlrc (curl); .psqlrc (psql)",
		"npm ci":                                "package.json, .npmrc (npm)",
		"git pull":                              ".git/config, .git/hooks, .gitattributes, .gitconfig, .config/git (git)",
		"python3.11 x.py":                       "*.py, pyproject.toml, setup.py, .local/lib/python*, .config/pip, .pypirc (python3.11)",
		"ssh host uptime":                       ".ssh (ssh)",
		"make":                                  "Makefile (make)",
		"ls -la; echo curl; grep -rn wget docs": "",
	} {
		if got := strings.Join(Unshown(line, true), "; "); got != want {
			t.Errorf("%q in a sandbox: %q, want %q", line, got, want)
		}
		if got := strings.Join(Unshown(line, false), "; "); strings.Contains(got, "curlrc") || strings.Contains(got, ".gitconfig") || strings.Contains(got, ".ssh") {
			t.Errorf("%q on the host: %q", line, got)
		}
	}
}
