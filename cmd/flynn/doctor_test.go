package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var commandOfFinding = regexp.MustCompile(`"(flynn [a-z][^"]*)"`)

// TestCommandsOfFindings checks that the commands which findings name are those of this program.
func TestCommandsOfFindings(t *testing.T) {
	files, err := filepath.Glob("../../host/admin/doctor/*.go")
	if err != nil || len(files) == 0 {
		t.Fatal(err)
	}
	n := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range commandOfFinding.FindAllStringSubmatch(string(text), -1) {
			if strings.HasSuffix(file, "_test.go") || strings.HasSuffix(file, "/codes.go") {
				continue
			}
			n++
			if err := checkCommand(strings.Fields(found[1])[1:]); err != nil {
				t.Errorf("%s: %q: %v", filepath.Base(file), found[1], err)
			}
		}
	}
	if n < 10 {
		t.Errorf("found %d commands", n)
	}
}
