package main

import (
	"encoding/csv"
	"slices"
	"strings"
	"testing"

	"github.com/flynnhost/flynn/sdk/sandbox"
)

func TestArgumentsHoldNoIdentity(t *testing.T) {
	c := sandbox.Container{Name: "n", Image: "i", Entrypoint: []string{"/p", "a"}, Identity: []byte("secret"), Labels: map[string]string{"l": "-v /:/host"}}
	args := arguments(c)
	if text := strings.Join(args, " "); strings.Contains(text, "secret") {
		t.Errorf("the identity is in %s", text)
	}
	if !slices.Contains(args, "--label=l=-v /:/host") || args[len(args)-1] != "a" || args[len(args)-2] != "i" {
		t.Errorf("arguments %q", args)
	}
}

func TestMountOfAnyPath(t *testing.T) {
	for _, path := range []string{"/plain", "/a,readonly", `/"quoted", and more`, "/two\nlines"} {
		fields, err := csv.NewReader(strings.NewReader(mount(sandbox.Mount{Source: path, Target: "/t", ReadOnly: true, Alone: true}))).Read()
		want := []string{"type=bind", "source=" + path, "target=/t", "bind-propagation=rprivate", "bind-nonrecursive=true", "readonly"}
		if err != nil || !slices.Equal(fields, want) {
			t.Errorf("%q, %v, want %q", fields, err, want)
		}
	}
}
