package plugin

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/flynnhost/flynn/host/plugin/cell"
	"github.com/flynnhost/flynn/sdk/need"
)

// replaceFile replaces a file as a resolver's manager does.
func replaceFile(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name+".new", []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(name+".new", name); err != nil {
		t.Fatal(err)
	}
}

func TestAProcessSeesFilesForNamesChange(t *testing.T) {
	if why := cell.FindNamespaces().Why; why != "" {
		need.Part(t, "namespaces", errors.New(why))
	}
	file := filepath.Join(t.TempDir(), "resolv.conf")
	replaceFile(t, file, "first")
	s := startPrepared(t, map[string]string{"actor": makePack(t, "reader", packOptions{})}, Containment{Launcher: testLauncher(t)}, func(h *Host) {
		h.nameFiles = []string{file, filepath.Join(filepath.Dir(file), "missing")} // a link to nothing harms nobody
	})
	s.add(Instance{Name: "one", Plugin: "actor", Settings: map[string]any{"file": file}}, &listener{})
	s.awaitLog("file says first <nil>")
	for _, text := range []string{"second", "third"} {
		replaceFile(t, file, text)
		s.awaitLog("file says " + text + " <nil>")
	}
	if strings.Contains(s.log.String(), "file says  ") {
		t.Errorf("it was gone for a moment:\n%s", s.log)
	}
}
