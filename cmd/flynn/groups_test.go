package main

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/urfave/cli/v3"
)

func TestEveryCommandHasAGroup(t *testing.T) {
	var out bytes.Buffer
	if code := run(context.Background(), []string{"flynn", "--help"}, func(string) string { return "" }, nil, &out, &out); code != 0 {
		t.Fatalf("exit code %d", code)
	}
	help := out.String()
	root := rootCommand()
	prepare(root)
	for _, c := range root.Commands {
		if !c.Hidden && !slices.Contains(groups(), c.Category) {
			t.Errorf("flynn %s has the group %q; give its Category one of %v (groups.go)", c.Name, c.Category, groups())
		}
		if shown := strings.Contains(help, "\n     "+c.Name+" "); shown == c.Hidden {
			t.Errorf("flynn --help shows %s: %v, want %v", c.Name, shown, !c.Hidden)
		}
	}
	at := -1
	for _, name := range groups() {
		next := strings.Index(help, "\n   "+name+":")
		if next <= at {
			t.Errorf("group %s is missing or out of order in\n%s", name, help)
		}
		at = next
	}
}

// TestOldNamesNameTheNew runs every command that moved under its old name, and looks for the warning.
func TestOldNamesNameTheNew(t *testing.T) {
	for _, group := range []*cli.Command{policyCommand(), pluginCommand()} {
		dev := group.Command("dev")
		for _, moved := range dev.Commands {
			old := group.Command(moved.Name)
			if old == nil || !old.Hidden || old.Usage != moved.Usage {
				t.Errorf("flynn %s %s is not a hidden name of flynn %s dev %[2]s", group.Name, moved.Name, group.Name)
				continue
			}
			var out bytes.Buffer
			run(context.Background(), []string{"flynn", group.Name, moved.Name, "--help"}, func(string) string { return "" }, nil, &out, &out)
			if out.Len() == 0 {
				t.Errorf("flynn %s %s --help prints nothing", group.Name, moved.Name)
			}
		}
	}
	var out bytes.Buffer
	run(context.Background(), []string{"flynn", "policy", "build", t.TempDir()}, func(string) string { return "" }, nil, &out, &out)
	if want := "flynn policy build is now flynn policy dev build"; !strings.Contains(out.String(), want) {
		t.Errorf("want %q in %s", want, out.String())
	}
}
