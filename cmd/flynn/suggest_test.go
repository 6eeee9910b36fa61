package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/urfave/cli/v3"
)

// TestSuggestions misspells every command of the program in every way of one letter, and asks for names that there are none near of.
func TestSuggestions(t *testing.T) {
	root := rootCommand()
	var walk func(*cli.Command)
	walk = func(c *cli.Command) {
		var wrong []string
		for _, sub := range c.Commands {
			walk(sub)
			for i := range sub.Name {
				wrong = append(wrong, sub.Name[:i]+sub.Name[i+1:], sub.Name[:i]+"x"+sub.Name[i+1:])
			}
		}
		for _, name := range append(wrong, "zzzzzz", "state", "shutdown", "end", "purge", "halted", "destroy") {
			if c.Command(name) != nil || name == "" || len(c.Commands) == 0 {
				continue
			}
			near := suggestion(c, name)
			if slices.Contains(ending, near) {
				t.Errorf("%s %s suggests %q", c.Name, name, near)
			}
		}
	}
	walk(root)
	for name, want := range map[string]string{"statsu": "status", "serv": "serve", "schedul": "schedule", "zzzzzz": "", "stopp": "", "sto": "", "q": ""} {
		if near := suggestion(root, name); near != want {
			t.Errorf("%q suggests %q, want %q", name, near, want)
		}
	}
}

// suggestion is what the error about an unknown command suggests.
func suggestion(c *cli.Command, name string) string {
	err := unknownCommandNamed(c, name)
	_, near, ok := strings.Cut(err.Error(), "did you mean \"")
	if !ok {
		return ""
	}
	near, _, _ = strings.Cut(near, "\"")
	return near
}
