package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/flynnhost/flynn/sdk/need"
)

// TestCommandsOfANewPolicysREADME runs every command of the README that flynn policy dev new writes, as it stands there.
func TestCommandsOfANewPolicysREADME(t *testing.T) {
	for _, program := range []string{"clang", "wasm-ld"} {
		_, err := exec.LookPath(program)
		need.Part(t, program, err)
	}
	t.Chdir(t.TempDir())
	getenv := func(key string) string { return map[string]string{"HOME": t.TempDir(), "PATH": os.Getenv("PATH")}[key] }
	flynn := func(args ...string) {
		t.Helper()
		var out bytes.Buffer
		if code := run(context.Background(), append([]string{"flynn"}, args...), getenv, nil, &out, &out); code != 0 {
			t.Errorf("flynn %q ends with %d\n%s", args, code, out.String())
		}
	}
	for _, kind := range []string{"route", "tool"} {
		name := "my-" + kind
		flynn("policy", "dev", "new", name, "--lang", "c", "--kind", kind)
		text, err := os.ReadFile(name + "/README.md")
		if err != nil {
			t.Fatal(err)
		}
		commands := 0
		for line := range strings.Lines(string(text)) {
			if command, ok := strings.CutPrefix(line, "    flynn "); ok {
				commands++
				flynn(words(command)...)
			}
		}
		if commands < 3 {
			t.Errorf("the README of a %s policy has %d commands", kind, commands)
		}
	}
}

// words splits a command line as a shell does, as far as pages need it: blanks, quotes around whole words, comments.
func words(line string) (all []string) {
	line, _, _ = strings.Cut(line, " #")
	for line = strings.TrimSpace(line); line != ""; line = strings.TrimSpace(line) {
		word, rest, _ := strings.Cut(line, " ")
		if quote := line[:1]; quote == `"` || quote == "'" {
			word, rest, _ = strings.Cut(line[1:], quote)
		}
		all, line = append(all, word), rest
	}
	return all
}
