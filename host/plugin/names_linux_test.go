package plugin

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/flynnhost/flynn/host/internal/durable"
	"github.com/flynnhost/flynn/host/plugin/jail"
	"github.com/flynnhost/flynn/sdk/need"
)

func TestAProcessSeesFilesForNamesChange(t *testing.T) {
	t.Parallel()
	if why := jail.FindNamespaces().Why; why != "" {
		need.Part(t, "namespaces", errors.New(why))
	}
	file := filepath.Join(t.TempDir(), "resolv.conf")
	replace := func(text string) { // as a resolver's manager does
		if err := durable.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	replace("first")
	s := startPrepared(t, map[string]string{"actor": makePack(t, "reader", packOptions{})}, Containment{Launcher: testLauncher(t)}, func(h *Host) {
		h.nameFiles = []string{file, filepath.Join(filepath.Dir(file), "missing")} // a link to nothing harms nobody
	})
	s.add(Instance{Name: "one", Plugin: "actor", Settings: map[string]any{"file": file}}, &listener{})
	s.awaitLog("file says first <nil>")
	for _, text := range []string{"second", "third"} {
		replace(text)
		s.awaitLog("file says " + text + " <nil>")
	}
	if strings.Contains(s.log.String(), "file says  ") {
		t.Errorf("it was gone for a moment:\n%s", s.log)
	}
}
