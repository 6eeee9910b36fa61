package livetest

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"

	"github.com/flynnhost/flynn/host/sandbox"
	"github.com/flynnhost/flynn/host/sandbox/sandboxtest"
)

// containers are the ids of those that the engine has of this site's host.
func (s *site) containers(engine sandboxtest.Host) []string {
	s.t.Helper()
	instance, err := os.ReadFile(filepath.Join(s.dir, "state/instance"))
	if err != nil {
		s.t.Fatal(err)
	}
	found, err := engine.API.ContainerList(s.t.Context(), container.ListOptions{
		All: true, Filters: filters.NewArgs(filters.Arg("label", sandbox.LabelInstance+"="+strings.TrimSpace(string(instance)))),
	})
	if err != nil {
		s.t.Fatal(err)
	}
	var ids []string
	for _, c := range found {
		ids = append(ids, c.ID)
	}
	return ids
}
