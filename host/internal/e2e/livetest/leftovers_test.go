package livetest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/flynnhost/flynn/host/sandbox/sandboxtest"
)

func TestNothingOutlivesAKilledHostForLong(t *testing.T) {
	t.Parallel()
	engine := sandboxtest.Engine(t)
	config := strings.Replace(ircConfig, "ADDRESS", ircServer(t), 1) + demoModels
	config = strings.Replace(config, "[agent_configs.helper]", "[agent_configs.helper]\ntool_profile = \"coding\"\nsandbox = true", 1)
	config += "[sandbox]\nenabled = true\nlocal_frontends = true\nimage = \"" + sandboxtest.Image + "\"\n"
	s, bystander := newSite(t, config), newSite(t, config)
	for _, each := range []*site{s, bystander} {
		each.start()
		if got := each.says("main", "!sh echo here"); !strings.Contains(got.Text, "here") {
			t.Fatalf("the sandbox does not work: %+v", got)
		}
	}
	plugin, old, others := s.pluginPID(0), s.containers(engine), bystander.containers(engine)
	if len(old) != 1 || len(others) != 1 {
		t.Fatalf("containers: %v and %v", old, others)
	}
	s.kill()
	s.eventually("the plugin ends with its host", func() error {
		if alive(plugin) {
			return fmt.Errorf("process %d lives", plugin)
		}
		return nil
	})
	s.start()
	s.eventually("the container of the killed host is gone", func() error {
		if left := s.containers(engine); slices.Contains(left, old[0]) {
			return fmt.Errorf("containers: %v", left)
		}
		return nil
	})
	if left := bystander.containers(engine); !slices.Equal(left, others) {
		t.Errorf("the other host's containers were %v and are %v", others, left)
	}
}
