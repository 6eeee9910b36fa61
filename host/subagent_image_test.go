package host

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/api/types/filters"
	apiimage "github.com/docker/docker/api/types/image"

	"github.com/flynnhost/flynn/host/model/modeltest"
	"github.com/flynnhost/flynn/host/sandbox/image"
	"github.com/flynnhost/flynn/host/sandbox/sandboxtest"
	"github.com/flynnhost/flynn/sdk/need"
)

// TestSubagentImage builds the example's Dockerfile as it stands, with packages of Debian from the mirror and those of npm from a registry
// of the test's own, and has the program that is in it answer under the example's configuration. In place of the base that the Dockerfile
// names, and of the API, there are stand-ins, and the build uses the network of the machine, since the engine of the tests has no bridge.
//
// It takes a minute or more, most of it for what the Dockerfile installs, and so runs where it is asked for by name alone.
func TestSubagentImage(t *testing.T) {
	if !need.Required("subagent-image") {
		t.Skip("the image takes minutes to make: just subagent")
	}
	engine := sandboxtest.Engine(t)
	dockerfile, err := os.ReadFile("../examples/subagent/Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("../examples/subagent/flynn.toml")
	if err != nil {
		t.Fatal(err)
	}
	engine.NodeImage(t, baseOf(t, string(dockerfile)), sandboxtest.NPMRegistry(t))
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "Dockerfile"), dockerfile, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("ANTHROPIC_API_KEY", modeltest.Key)
	t.Setenv("OPENAI_API_KEY", modeltest.Key)
	api := modeltest.New(t)
	api.Script(modeltest.Reply{Text: "hello from the model", Input: 11, Output: 3})
	openai := &responses{}
	both := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.Host, "api.openai.com") {
			openai.ServeHTTP(w, r)
			return
		}
		api.ServeHTTP(w, r)
	})
	whole := strings.ReplaceAll(string(text), `"../../.cache/subagent"`, strconv.Quote(t.TempDir())) + "[gateway]\nlisten = \"127.0.0.1:0\"\n"
	whole = strings.Replace(whole, "dockerfile = \"Dockerfile\"\n", "dockerfile = \"Dockerfile\"\nbuild_network = \"host\"\n", 1)
	s := runCLI(t, dir, whole, serveAs(t, both, "api.anthropic.com", "api.openai.com"))
	s.sweepVolumes(engine)
	s.sweepImages(engine)

	event := s.say("say hello")
	s.awaitImage(engine)
	s.expect(s.answer(event), "hello from the model")
	s.say("/agent codex")
	s.expect(s.ask("say hello"), "hello from the model")
	openai.mu.Lock()
	defer openai.mu.Unlock()
	if len(openai.seen) != 1 || openai.keys[0] != "Bearer "+modeltest.Key {
		t.Errorf("codex asked %d times, with %q", len(openai.seen), openai.keys)
	}
}

// images are those that the host has made.
func (s *cliHome) images(engine sandboxtest.Host) ([]apiimage.Summary, error) {
	made := filters.NewArgs(filters.Arg("label", image.LabelInstance+"="+s.host.fleet.Instance()))
	return engine.API.ImageList(context.WithoutCancel(s.t.Context()), apiimage.ListOptions{Filters: made})
}

// buildPatience is for a mirror of Debian that is slow.
const buildPatience = 5 * time.Minute

// awaitImage waits until the host has made one.
func (s *cliHome) awaitImage(engine sandboxtest.Host) {
	s.t.Helper()
	for end := time.Now().Add(buildPatience); ; {
		list, err := s.images(engine)
		switch {
		case err != nil:
			s.t.Fatal(err)
		case len(list) > 0:
			return
		case time.Now().After(end):
			s.t.Fatal("the image is not made")
		}
		select {
		case <-time.After(200 * time.Millisecond):
		case <-s.t.Context().Done():
			return
		}
	}
}

// sweepImages removes the images that the host has made.
func (s *cliHome) sweepImages(engine sandboxtest.Host) {
	s.t.Cleanup(func() {
		s.end()
		ctx := context.WithoutCancel(s.t.Context())
		list, err := s.images(engine)
		for _, i := range list {
			_, failed := engine.API.ImageRemove(ctx, i.ID, apiimage.RemoveOptions{Force: true, PruneChildren: true})
			err = errors.Join(err, failed)
		}
		if err != nil {
			s.t.Error(err)
		}
	})
}

// baseOf is the image that a Dockerfile begins with.
func baseOf(t *testing.T, dockerfile string) string {
	t.Helper()
	for line := range strings.Lines(dockerfile) {
		if name, is := strings.CutPrefix(strings.TrimSpace(line), "FROM "); is {
			return name
		}
	}
	t.Fatal("the Dockerfile has no FROM")
	return ""
}
