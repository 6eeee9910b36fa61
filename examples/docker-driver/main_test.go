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

// TestLinesInPieces: docker writes a line in pieces.
func TestLinesInPieces(t *testing.T) {
	var told []string
	l := lines{tell: func(line string) { told = append(told, line) }}
	for _, piece := range []string{"latest: ", "Pulling from x\n", "a: Pulling fs layer\nb: ", "Waiting\n\n", "rest"} {
		if n, err := l.Write([]byte(piece)); n != len(piece) || err != nil {
			t.Error(n, err)
		}
	}
	if want := []string{"latest: Pulling from x", "a: Pulling fs layer", "b: Waiting", ""}; !slices.Equal(told, want) {
		t.Errorf("%q, want %q", told, want)
	}
}

// TestFoldersOfLongNames: the path of a socket fits wherever the longest folder is, whatever a conversation is called.
func TestFoldersOfLongNames(t *testing.T) {
	var e engine
	e.settings.Folder = "/" + strings.Repeat("f", 39)
	seen := map[string]bool{}
	for _, name := range []string{"a", "b", strings.Repeat("c", 128), strings.Repeat("c", 127) + "d"} {
		at, err := e.Endpoint(t.Context(), name)
		if err != nil || len(at.Address) > 107 || seen[at.Address] {
			t.Errorf("%s: %+v, %v", name, at, err)
		}
		seen[at.Address] = true
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
