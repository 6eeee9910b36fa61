package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/flynnhost/flynn/host/admin/sandboxes"
	"github.com/flynnhost/flynn/host/sandbox/driver"
	"github.com/flynnhost/flynn/host/sandbox/sandboxtest"
)

// forgetImages removes what was built, once the test is over.
func (s sandboxSite) forgetImages() {
	s.t.Cleanup(func() {
		images, _ := s.host.Driver.(driver.Images).ListImages(context.Background(), s.host.Instance)
		for _, o := range images {
			_ = s.host.Driver.(driver.Images).RemoveImage(context.Background(), o.Name)
		}
	})
}

func TestSandboxImages(t *testing.T) {
	dir := t.TempDir()
	dockerfile := func(text string) {
		if err := os.WriteFile(filepath.Join(dir, "Dockerfile"), []byte("FROM "+sandboxtest.Image+"\n"+text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	dockerfile("RUN cat /proc/sys/kernel/random/uuid > /id")
	s := newSandboxes(t, fmt.Sprintf("enabled = true\n[sandboxes.built]\ndockerfile = %q\nbuild_network = \"none\"\n[agent_configs.builder]\nsandbox = \"built\"",
		filepath.Join(dir, "Dockerfile")))
	s.forgetImages()
	read := func() string {
		out, stderr := s.flynn(exitOK, "exec", "--sandbox", "built", "cat /id")
		if len(out) != 37 {
			t.Fatalf("printed %q, %s", out, stderr)
		}
		return out
	}
	explained := func() sandboxes.Placement {
		var places []sandboxes.Placement
		out, _ := s.flynn(exitOK, "explain", "--json", "builder")
		if err := json.Unmarshal([]byte(out), &places); err != nil || len(places) != 2 {
			t.Fatalf("%s: %v", out, err)
		}
		return places[0]
	}
	before := explained()
	if before.Strategy != "dockerfile" || !strings.HasPrefix(before.Image, "flynn-") {
		t.Errorf("before the build: %+v", before)
	}
	_, stderr := s.flynn(exitOK, "exec", "--sandbox", "built", "true")
	if !strings.Contains(stderr, "flynn: building image") {
		t.Errorf("the build was not reported: %s", stderr)
	}
	first := read()
	if again := read(); again != first {
		t.Error("it was built again")
	}
	var made sandboxes.Rebuilt
	out, stderr := s.flynn(exitOK, "rebuild", "--sandbox", "built", "--json")
	if err := json.Unmarshal([]byte(out), &made); err != nil {
		t.Fatal(err)
	}
	if made.Image != before.Image || made.Strategy != "dockerfile" || made.Sandbox != "built" || !strings.Contains(stderr, "flynn: building image") {
		t.Errorf("rebuilt %+v, %s", made, stderr)
	}
	if read() == first {
		t.Error("the image is not a new one")
	}

	if removed := s.listed("prune"); len(removed) != 0 {
		t.Errorf("prune removed what is needed: %+v", removed)
	}
	dockerfile("RUN cat /proc/sys/kernel/random/uuid > /id # another")
	if after := explained(); after.Image == before.Image {
		t.Errorf("a change makes no difference: %+v", after)
	}
	if out, _ := s.flynn(exitOK, "prune"); !strings.HasPrefix(out, "KIND ") || strings.Count(out, "\n") != 2 || !strings.Contains(out, before.Image+"  -") {
		t.Errorf("prune removed %s", out)
	}
	if left, err := s.host.Driver.(driver.Images).ListImages(t.Context(), s.host.Instance); err != nil || len(left) != 0 {
		t.Errorf("left %+v, %v", left, err)
	}
	if out, _ := s.flynn(exitOK, "rebuild"); !strings.Contains(out, sandboxtest.Image) {
		t.Errorf("an image as it is: %q", out)
	}
	dockerfile("RUN echo told; exit 9")
	if _, stderr := s.flynn(exitFailure, "rebuild", "--sandbox", "built"); !strings.Contains(stderr, "non-zero code: 9; its last output: told") {
		t.Errorf("a build that fails: %s", stderr)
	}
}

func TestSandboxImageThatCannotBeBuilt(t *testing.T) {
	dockerfile := filepath.Join(t.TempDir(), "Dockerfile")
	if err := os.WriteFile(dockerfile, []byte("FROM "+sandboxtest.Image+"\nRUN exit 7\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := newSandboxes(t, fmt.Sprintf("enabled = true\n[sandboxes.built]\ndockerfile = %q\nbuild_network = \"none\"", dockerfile))
	if _, stderr := s.flynn(exitNotRun, "exec", "--sandbox", "built", "true"); strings.Count(stderr, "non-zero code: 7") != 1 {
		t.Errorf("the reason is to be said once: %s", stderr)
	}
}

// The files that Flynn keeps below the folder of a Dockerfile change with every command, and no sandbox may see them.
func TestSandboxImageHoldsNothingOfFlynn(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "Dockerfile"), []byte("FROM "+sandboxtest.Image+"\nCOPY . /all\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	store := filepath.Join(dir, "kept", "store")
	s := newSandboxes(t, fmt.Sprintf("enabled = true\n[sandboxes.built]\ndockerfile = %q\nbuild_network = \"none\"", filepath.Join(dir, "Dockerfile")), store)
	s.forgetImages()
	if out, stderr := s.flynn(exitOK, "exec", "--sandbox", "built", "cd /all && find . | sort"); out != ".\n./Dockerfile\n./kept\n" || !strings.Contains(stderr, "building image") {
		t.Errorf("the image has %q, %s", out, stderr)
	}
	if _, stderr := s.flynn(exitOK, "exec", "--sandbox", "built", "true"); strings.Contains(stderr, "building image") {
		t.Errorf("it was built again: %s", stderr)
	}
}

// The image of a sandbox with services is that of the service where commands run, not the one that [sandbox] names.
func TestSandboxImagesOfServices(t *testing.T) {
	file := filepath.Join(t.TempDir(), "stack.yaml")
	stack := fmt.Sprintf("services:\n  app:\n    image: %s\n  beside:\n    image: %[1]s\n    command: [sleep, \"600\"]\n", sandboxtest.Image)
	if err := os.WriteFile(file, []byte(stack), 0o600); err != nil {
		t.Fatal(err)
	}
	s := newSandboxes(t, fmt.Sprintf("enabled = true\n[sandboxes.stack]\nimage = \"flynn-test/none:1\"\ncompose = %q\nservice = \"app\"\n[agent_configs.stacked]\nsandbox = \"stack\"", file))
	var places []sandboxes.Placement
	out, _ := s.flynn(exitOK, "explain", "--json", "stacked")
	if err := json.Unmarshal([]byte(out), &places); err != nil || len(places) != 2 || places[0].Image != sandboxtest.Image || places[0].Strategy != "compose" {
		t.Errorf("explained %s (%v)", out, err)
	}
	var made sandboxes.Rebuilt
	out, _ = s.flynn(exitOK, "rebuild", "--sandbox", "stack", "--json")
	if err := json.Unmarshal([]byte(out), &made); err != nil || made.Image != sandboxtest.Image || made.Strategy != "compose" {
		t.Errorf("rebuilt %s (%v)", out, err)
	}
}
