package livetest

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/sandbox/sandboxtest"
)

// TestSandboxPullsAnImage: an image that only a registry has is pulled for a command, by the engine's own driver and by a plugin in its jail,
// with its progress, or it is said why not.
func TestSandboxPullsAnImage(t *testing.T) {
	for _, by := range []string{"docker", "plugin"} {
		t.Run(by, func(t *testing.T) {
			t.Parallel()
			engine := sandboxtest.Engine(t)
			registry := sandboxtest.NewRegistry(t)
			image := registry.Image(t, engine)
			driver := ""
			if by == "plugin" {
				folder, err := os.MkdirTemp("/tmp", "sp") // short, since it holds sockets
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { os.RemoveAll(folder) })
				driver = fmt.Sprintf("engine = \"driver:box\"\n[plugins.dev_paths]\ndocker-driver = %q\n[drivers.box]\nplugin = \"docker-driver\"\nfolder = %q\nwrite = [%[2]q]\nsockets = [%[3]q]\n",
					sandboxtest.DockerDriver(t), folder, strings.TrimPrefix(engine.Driver.Address(), "unix://"))
			}
			s := newSite(t, sandboxed+fmt.Sprintf("image = %q\n%s[sandboxes.pulled]\nimage = %q\n[sandboxes.none]\nimage = \"%[3]s-other\"\n", sandboxtest.Image, driver, image))
			if driver != "" { // nobody uses it before that
				s.mustFlynn("sandbox", "selftest")
			}
			for _, c := range []struct {
				name, sandbox, image string
				trouble              sandboxtest.Trouble
				says                 []string // by version of the engine
			}{
				{"no such image", "none", image + "-other", sandboxtest.NoTrouble, []string{"manifest unknown"}},
				{"password", "pulled", image, sandboxtest.Closed, []string{"no basic auth credentials", "unauthorized"}},
				{"altered", "pulled", image, sandboxtest.Altered, []string{"verification failed", "unexpected commit digest"}},
			} {
				registry.Suffer(c.trouble)
				_, stderr, err := s.flynn("", "sandbox", "exec", "--sandbox", c.sandbox, "true")
				said := slices.ContainsFunc(c.says, func(want string) bool { return strings.Contains(stderr, want) })
				if err == nil || !said || !strings.Contains(stderr, "cannot be pulled") || !strings.Contains(stderr, "docker pull "+c.image) {
					t.Errorf("%s: it says %s, want one of %q", c.name, stderr, c.says)
				}
				t.Logf("%s: %s", c.name, stderr)
			}
			registry.Suffer(sandboxtest.Stalled)
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				registry.AwaitStall(t)
				time.Sleep(3 * time.Second) // progress is shown once in a second, by the driver and by the command
				registry.Suffer(sandboxtest.NoTrouble)
			}()
			out, stderr, err := s.flynn("", "sandbox", "exec", "--sandbox", "pulled", "wc -c </filler")
			if err != nil || strings.TrimSpace(out) != fmt.Sprint(sandboxtest.FillerSize) {
				t.Errorf("printed %q %s: %v", out, stderr, err)
			}
			if !regexp.MustCompile(`(?m)^flynn: pulling image ` + regexp.QuoteMeta(image) + `: .*(Pulling|Download|layer|\d).+$`).MatchString(stderr) {
				t.Errorf("no progress in %s", stderr)
			}
			t.Logf("pulled: %s", stderr)
			<-ended
			if out, _, err := s.flynn("", "sandbox", "list", "--json"); err != nil || strings.TrimSpace(out) != "[]" {
				t.Errorf("containers left: %s, %v", out, err)
			}
		})
	}
}
