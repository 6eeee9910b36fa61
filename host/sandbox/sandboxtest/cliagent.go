package sandboxtest

import (
	"archive/tar"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/flynnhost/flynn/sdk/need"
)

// cliAgents is the folder given to `npm install --prefix` for the programs of other agents; FLYNN_CLI_AGENTS names another one.
const cliAgents = "/var/tmp/flynn-cli-agents"

func cliAgentsFolder() string { return cmp.Or(os.Getenv("FLYNN_CLI_AGENTS"), cliAgents) }

// CLIAgent returns an image with busybox and the npm program of another agent: claude, codex or gemini. It is imported once per engine. If
// the package is not installed the test is skipped or fails; see need.Part.
func (h Host) CLIAgent(t testing.TB, name string) string {
	t.Helper()
	a, err := findCLIAgent(name)
	need.Part(t, "cli-agents", err)
	unlock := onceOnThisMachine(t, "flynn-test-cli-agent")
	defer unlock()
	if err := importImage(t.Context(), h.API, a.tag(), func() io.Reader { return root(a.add) }); err != nil {
		t.Fatalf("make the image of %s: %v", name, err)
	}
	return a.tag()
}

// cliAgent is a program: a binary, or a folder with a script for node.
type cliAgent struct {
	name, version string
	program       string // the binary, or node
	folder        string // of the package, if it runs on node
	script        string // below folder
}

func findCLIAgent(name string) (cliAgent, error) {
	folder := cliAgentsFolder()
	packages := map[string]string{"claude": "@anthropic-ai/claude-code", "codex": "@openai/codex", "gemini": "@google/gemini-cli"}
	modules := filepath.Join(folder, "node_modules")
	a := cliAgent{name: name}
	manifest, err := os.ReadFile(filepath.Join(modules, packages[name], "package.json"))
	if err != nil {
		return a, fmt.Errorf("%w: npm install --prefix %s %s", err, folder, packages[name])
	}
	a.version = digest(string(manifest), cliAgentLayout)
	switch name {
	case "claude":
		a.program, err = only(filepath.Join(modules, "@anthropic-ai/claude-code-linux-*/claude"), "musl")
	case "codex":
		a.program, err = only(filepath.Join(modules, "@openai/codex-linux-*/vendor/*/bin/codex"), "")
	case "gemini":
		a.folder, a.script = filepath.Join(modules, packages[name]), "bundle/gemini.js"
		a.program, err = exec.LookPath("node")
	default:
		err = fmt.Errorf("no package for %q", name)
	}
	return a, err
}

// only returns the only file that matches a pattern and whose path does not contain a word.
func only(pattern, without string) (string, error) {
	found, err := filepath.Glob(pattern)
	found = slices.DeleteFunc(found, func(p string) bool { return without != "" && strings.Contains(p, without) })
	if err == nil && len(found) != 1 {
		err = fmt.Errorf("%d files are %s", len(found), pattern)
	}
	if err != nil {
		return "", err
	}
	return found[0], nil
}

// cliAgentLayout changes whenever root changes the image.
const cliAgentLayout = "1"

func (a cliAgent) tag() string { return "flynn-test/cli-" + a.name + ":" + a.version }

func (a cliAgent) add(w *tar.Writer) error {
	place := "usr/bin/" + a.name
	if a.folder != "" {
		place = "usr/bin/node"
		add(w, tar.Header{Typeflag: tar.TypeReg, Name: "usr/bin/" + a.name, Mode: 0o755},
			[]byte("#!/bin/sh\nexec node /opt/"+a.name+"/"+a.script+" \"$@\"\n"))
		if err := addFolder(w, a.folder, "opt/"+a.name); err != nil {
			return err
		}
	}
	if err := addLinked(w, a.program); err != nil && !errors.As(err, new(*exec.ExitError)) { // ldd fails for a static program
		return err
	}
	return addFile(w, a.program, place)
}

func addFolder(w *tar.Writer, folder, place string) error {
	return filepath.WalkDir(folder, func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		rel, err := filepath.Rel(folder, name)
		if err != nil {
			return err
		}
		return addFile(w, name, filepath.Join(place, rel))
	})
}
