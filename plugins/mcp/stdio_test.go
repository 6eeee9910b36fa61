package main

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
)

// TestTheTellingLine: of what a program writes when it fails, the line that says why is kept, and a try takes few lines of the log.
func TestTheTellingLine(t *testing.T) {
	node := "node:internal/modules/cjs/loader:1215\n  throw err;\n  ^\n\nError: Cannot find module '/srv/files/server.js'\n" +
		"    at Module._resolveFilename (node:internal/modules/cjs/loader:1212:15)\n    at node:internal/main/run_main_module:28:49 {\n" +
		"  code: 'MODULE_NOT_FOUND',\n  requireStack: []\n}\n\nNode.js v20.20.2\n"
	python := "Traceback (most recent call last):\n  File \"x.py\", line 1, in <module>\nModuleNotFoundError: No module named 'mcp'\n"
	for text, want := range map[string]string{
		node: "Error: Cannot find module '/srv/files/server.js'", python: "ModuleNotFoundError: No module named 'mcp'",
		"starting\nbroken\n": "broken", "one\n   two\n": "one", "": "", "\x1b[31m\n\xff\n": "\uFFFD",
	} {
		var log bytes.Buffer
		if got := logLines(strings.NewReader(text), slog.New(slog.NewTextHandler(&log, nil))); got != want {
			t.Errorf("of %q it keeps %q, want %q", text, got, want)
		}
		if n := strings.Count(log.String(), "\n"); n > 3 {
			t.Errorf("%d lines in the log:\n%s", n, log.String())
		}
	}
}

// TestFilesOutOfSight names the file of the command line that the server cannot see.
func TestFilesOutOfSight(t *testing.T) {
	s := settings{Command: "node", Args: []string{"--flag", "relative.js", t.TempDir(), "/nowhere/files/server.js"}}
	if got := s.outOfSight(); !strings.Contains(got, `/nowhere/files/server.js is hidden from it, or missing: if it is there, add read = ["/nowhere/files"]`) {
		t.Error(got)
	}
	s.Args = s.Args[:3]
	if got := s.outOfSight(); got != "" {
		t.Error(got)
	}
}
