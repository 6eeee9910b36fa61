package image_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/flynnhost/flynn/host/sandbox/image"
)

func sumOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

const program = "#!/bin/sh\necho hello from a binary\n"

// serve answers with the program, and in some unpleasant ways.
func serve(t *testing.T) (*httptest.Server, *int) {
	t.Helper()
	served := 0
	mux := http.NewServeMux()
	s := httptest.NewTLSServer(mux)
	t.Cleanup(s.Close)
	mux.HandleFunc("/program", func(w http.ResponseWriter, _ *http.Request) { served++; fmt.Fprint(w, program) })
	mux.HandleFunc("/moved", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/program", http.StatusFound) })
	mux.HandleFunc("/round", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/round", http.StatusFound) })
	mux.HandleFunc("/plain", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://"+r.Host+"/program", http.StatusFound)
	})
	mux.HandleFunc("/huge", func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Content-Length", "600000000") })
	return s, &served
}

func TestBinaries(t *testing.T) {
	server, served := serve(t)
	r := newRig(t, server.Client())
	base, baseID := r.base(`USER 1000:1000`, `ENTRYPOINT ["/bin/sh","-e"]`, `CMD ["-c","echo own"]`, `WORKDIR /work`, `ENV KEPT=1`, `LABEL own=kept`)
	file := filepath.Join(t.TempDir(), "other")
	write(t, filepath.Dir(file), map[string]string{"other": "#!/bin/sh\necho other\n"})
	recipe := image.Recipe{Image: base, Binaries: []image.Binary{
		{Name: "program", URL: server.URL + "/moved", SHA256: sumOf(program)},
		{Name: "other", File: file, SHA256: sumOf("#!/bin/sh\necho other\n")},
	}}
	ref := r.prepare(recipe)
	if got := r.run(ref, "program; other; stat -c '%n %a %u %g' /usr/local/bin /usr/local/bin/*"); got != "hello from a binary\nother\n"+
		"/usr/local/bin 755 0 0\n/usr/local/bin/other 755 0 0\n/usr/local/bin/program 755 0 0\n" {
		t.Errorf("got %q", got)
	}
	before, err := r.host.API.ImageInspect(t.Context(), baseID)
	if err != nil {
		t.Fatal(err)
	}
	after, err := r.host.API.ImageInspect(t.Context(), ref)
	if err != nil {
		t.Fatal(err)
	}
	labels := after.Config.Labels
	if labels[image.LabelInstance] != r.instance || labels[image.LabelKey] == "" || labels[image.LabelExpires] == "" || labels["own"] != "kept" ||
		labels["flynn.instance"] != "" {
		t.Errorf("labels: %v", labels)
	}
	before.Config.Labels, after.Config.Labels = nil, nil
	if !reflect.DeepEqual(before.Config, after.Config) {
		t.Errorf("configuration was %+v, is %+v", before.Config, after.Config)
	}

	r.engine.counted()
	if again := r.prepare(recipe); again != ref || len(r.engine.counted()) > 0 || *served != 1 {
		t.Errorf("made again: %s, calls %v, %d downloads", again, r.engine.counted(), *served)
	}
	recipe.Binaries = recipe.Binaries[:1]
	if other := r.prepare(recipe); other == ref || *served != 1 {
		t.Errorf("without a binary: %s, %d downloads", other, *served)
	}
	otherBase, _ := r.base()
	recipe.Image = otherBase
	if other := r.prepare(recipe); other == ref {
		t.Errorf("another base made no difference")
	}
}

func TestBinaryRefused(t *testing.T) {
	server, _ := serve(t)
	r := newRig(t, server.Client())
	base, id := r.base()
	wrong := sumOf("something else")
	for _, c := range []struct {
		name   string
		binary image.Binary
		want   []string
	}{
		{"wrong sum", image.Binary{URL: server.URL + "/program", SHA256: wrong}, []string{wrong, sumOf(program), server.URL}},
		{"redirect to plain HTTP", image.Binary{URL: server.URL + "/plain", SHA256: sumOf(program)}, []string{"redirects to http://", "not https"}},
		{"redirect in a circle", image.Binary{URL: server.URL + "/round", SHA256: sumOf(program)}, []string{"more than 5 times"}},
		{"not there", image.Binary{URL: server.URL + "/nothing", SHA256: sumOf(program)}, []string{"404"}},
		{"too large", image.Binary{URL: server.URL + "/huge", SHA256: sumOf(program)}, []string{"larger than 512 MiB"}},
		{"plain HTTP", image.Binary{URL: "http://example.com/x", SHA256: wrong}, []string{"must be an https address such as https://"}},
		{"no sum", image.Binary{URL: server.URL + "/program"}, []string{"has no sha256", "sha256sum"}},
		{"file of another sum", image.Binary{File: "/bin/busybox", SHA256: wrong}, []string{"/bin/busybox", wrong}},
		{"no such file", image.Binary{File: "/nonexistent", SHA256: wrong}, []string{"/nonexistent"}},
		{"not a file", image.Binary{File: "/dev/null", SHA256: wrong}, []string{"not a regular file"}},
		{"both", image.Binary{File: "/x", URL: "https://x/", SHA256: wrong}, []string{"both url and file"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.binary.Name = "program"
			_, err := r.Prepare(t.Context(), image.Recipe{Image: base, Binaries: []image.Binary{c.binary}})
			if err == nil {
				t.Fatal("no error")
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q does not say %q", err, want)
				}
			}
			if left, _ := os.ReadDir(r.cache); len(left) > 0 {
				t.Errorf("kept: %v", left)
			}
		})
	}
	r.nothingOn(id)
}

// A download is checked again before it is used.
func TestSpoiltDownloadIsReplaced(t *testing.T) {
	server, served := serve(t)
	r := newRig(t, server.Client())
	base, _ := r.base()
	recipe := image.Recipe{Image: base, Binaries: []image.Binary{{Name: "program", URL: server.URL + "/program", SHA256: sumOf(program)}}}
	write(t, r.cache, map[string]string{sumOf(program): "spoilt"})
	if got := r.run(r.prepare(recipe), "program"); got != "hello from a binary\n" || *served != 1 {
		t.Errorf("got %q after %d downloads", got, *served)
	}
	for _, keep := range [][]image.Binary{recipe.Binaries, nil, nil} {
		if err := r.KeepDownloads(keep); err != nil {
			t.Error(err)
		}
		if left, _ := os.ReadDir(r.cache); len(left) != len(keep) {
			t.Errorf("keeping %d: %v", len(keep), left)
		}
	}
}

// standIn is a package manager that tells how it was called, and fails for the package "nosuch" with the words and the exit
// code of the real one: apk's is the number of its errors.
const standIn = `#!/bin/sh
echo "$0 $*" >> /called
for word in "$@"; do
  case "$word-$0" in
  nosuch-*apk) printf 'ERROR: unable to select packages:\n  \033[31mnosuch\033[0m (no such package):\n    required by: world[nosuch]\n' >&2; exit 1 ;;
  nosuch-*) echo 'E: Unable to locate package nosuch' >&2; exit 100 ;;
  slow-*) echo "Executing slow-1.0-r0.post-install"; echo started; sleep 600 ;;
  esac
done
echo "(1/1) Installing $*"
`

// withManager is a base image with a stand-in for a package manager.
func (r *rig) withManager(path string) (name, id string) {
	r.t.Helper()
	return r.baseWith(bytes.NewReader(archive(r.t, map[string]string{path[1:]: standIn, filepath.Dir(path)[1:] + "/": ""})))
}

// The real package managers have tests of their own where they can be had; here it is which one is called, and how.
func TestPackagesByManager(t *testing.T) {
	for _, c := range []struct{ name, path, want string }{
		{"apt", "/usr/bin/apt-get", "/usr/bin/apt-get -q update\n/usr/bin/apt-get -q -o APT::Cmd::Pattern-Only=true install -y --no-install-recommends git=1:2.3~4 libc++-dev\n/usr/bin/apt-get -q clean\n"},
		{"apk", "/sbin/apk", "/sbin/apk add --no-cache git=1:2.3~4 libc++-dev\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, nil)
			base, _ := r.withManager(c.path)
			recipe := image.Recipe{Image: base, Packages: []string{"git=1:2.3~4", "libc++-dev"}, Network: "none"}
			var n notices
			ref, err := r.Prepare(n.under(t.Context()), recipe)
			if err != nil {
				t.Fatal(err)
			}
			if got := r.run(ref, "cat /called"); got != c.want {
				t.Errorf("called as %q, want %q", got, c.want)
			}
			if !strings.Contains(n.all(), "installing packages with "+c.name) || !strings.Contains(n.all(), "installing packages: (1/1) Installing") {
				t.Errorf("told %q", n.all())
			}
			recipe.Packages = []string{"libc++-dev", "git=1:2.3~4"}
			r.engine.counted()
			if again := r.prepare(recipe); again != ref || len(r.engine.counted()) > 0 {
				t.Errorf("the order of packages makes a difference")
			}
		})
	}
}

func TestPackagesFail(t *testing.T) {
	t.Run("no manager", func(t *testing.T) {
		r := newRig(t, nil)
		base, id := r.base()
		_, err := r.Prepare(t.Context(), image.Recipe{Image: base, Packages: []string{"git"}, Network: "none"})
		if err == nil || !strings.Contains(err.Error(), "neither apt-get nor apk") {
			t.Errorf("got %v", err)
		}
		r.nothingOn(id)
	})
	for _, c := range []struct {
		path, step string
		output     []string
		code       string
	}{
		{"/sbin/apk", "apk install nosuch", []string{"ERROR: unable to select packages:", "nosuch (no such package):", "required by: world[nosuch]"}, "exit code 1;"},
		{"/usr/bin/apt-get", "apt install nosuch", []string{"(1/1) Installing -q update", "E: Unable to locate package nosuch"}, "exit code 100;"},
	} {
		t.Run("no such package for "+c.path, func(t *testing.T) {
			r := newRig(t, nil)
			base, id := r.withManager(c.path)
			_, err := r.Prepare(t.Context(), image.Recipe{Image: base, Packages: []string{"nosuch"}, Network: "none"})
			var step *image.StepError
			if !errors.As(err, &step) || step.Step != c.step || !reflect.DeepEqual(step.Output, c.output) || !strings.Contains(err.Error(), c.code) {
				t.Errorf("got %v", err)
			}
			r.nothingOn(id)
		})
	}
	t.Run("base image nowhere", func(t *testing.T) {
		r := newRig(t, nil)
		_, err := r.Prepare(t.Context(), image.Recipe{Image: "127.0.0.1:9/nosuch:1", Packages: []string{"git"}})
		var pull *image.PullError
		if !errors.As(err, &pull) || pull.Image != "127.0.0.1:9/nosuch:1" || !strings.Contains(err.Error(), "docker pull 127.0.0.1:9/nosuch:1") {
			t.Errorf("got %v", err)
		}
	})
}

// If any call fails, nothing is left, and the next attempt succeeds.
func TestFaultPoints(t *testing.T) {
	r := newRig(t, nil)
	base, id := r.withManager("/sbin/apk")
	file := filepath.Join(t.TempDir(), "f")
	write(t, filepath.Dir(file), map[string]string{"f": program})
	for _, c := range []struct {
		name   string
		recipe image.Recipe
		least  int // points
	}{
		{"packages and binaries", image.Recipe{
			Image: base, Packages: []string{"git"}, Network: "none", Binaries: []image.Binary{{Name: "f", File: file, SHA256: sumOf(program)}},
		}, 8},
		{"dockerfile", dockerfile(t, "FROM "+base+" AS one\nRUN echo 1 > /1\nFROM "+base+"\nCOPY --from=one /1 /1", nil), 5},
	} {
		t.Run(c.name, func(t *testing.T) { r.faults(t, c.recipe, id, c.least) })
		r.sweep()
	}
}

// faults has each call of the engine fail in turn, one in each attempt.
func (r *rig) faults(t *testing.T, recipe image.Recipe, base string, least int) {
	broken := errors.New("the engine broke")
	defer func() { r.engine.before = nil }()
	for point := 1; ; point++ {
		calls, at := 0, ""
		r.engine.before = func(call string) error {
			if calls++; calls == point {
				at = call
				return broken
			}
			return nil
		}
		_, err := r.Prepare(t.Context(), recipe)
		if err == nil {
			if point <= least {
				t.Errorf("only %d points", point-1)
			}
			return
		}
		if !errors.Is(err, broken) || strings.Contains(err.Error(), "in use") {
			t.Fatalf("point %d (%s): %v", point, at, err)
		}
		if made := r.madeOn(t.Context(), base); len(made) > 0 {
			t.Errorf("point %d (%s) left %q", point, at, made)
		}
	}
}

func TestCancelledInstallLeavesNothing(t *testing.T) {
	r := newRig(t, nil)
	base, id := r.withManager("/sbin/apk")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	n := notices{heard: make(chan string, 100)}
	failed := make(chan error, 1)
	go func() {
		_, err := r.Prepare(n.under(ctx), image.Recipe{Image: base, Packages: []string{"slow"}, Network: "none"})
		failed <- err
	}()
	for line := range n.heard {
		if strings.Contains(line, "started") {
			break
		}
	}
	cancel()
	if err := <-failed; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	r.nothingOn(id)
}
