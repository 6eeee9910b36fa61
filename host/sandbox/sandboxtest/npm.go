package sandboxtest

import (
	"archive/tar"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/flynnhost/flynn/sdk/need"
)

// npmPackage is a package that npm has installed.
type npmPackage struct {
	folder   string
	manifest map[string]any
}

// NPMRegistry serves the packages of other agents' programs, as installed on this machine, by the protocol of npm's registry.
func NPMRegistry(t testing.TB) (url string) {
	t.Helper()
	_, err := findCLIAgent("claude")
	need.Part(t, "cli-agents", err)
	packages := map[string]map[string]npmPackage{} // by name and version
	for _, pattern := range []string{"node_modules/*/package.json", "node_modules/@*/*/package.json"} {
		found, err := filepath.Glob(filepath.Join(cliAgentsFolder(), pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range found {
			p := npmPackage{folder: filepath.Dir(file)}
			text, err := os.ReadFile(file)
			if err == nil {
				err = json.Unmarshal(text, &p.manifest)
			}
			name, version := fmt.Sprint(p.manifest["name"]), fmt.Sprint(p.manifest["version"])
			if err != nil {
				t.Fatal(err)
			}
			if packages[name] == nil {
				packages[name] = map[string]npmPackage{}
			}
			packages[name][version] = p
		}
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name, version, tarball := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/-/")
		switch p, known := packages[name][version]; {
		case tarball && known:
			w.Header().Set("Content-Type", "application/octet-stream")
			if err := p.pack(w); err != nil && r.Context().Err() == nil {
				t.Errorf("pack %s: %v", name, err)
			}
		case !tarball && packages[name] != nil:
			w.Header().Set("Content-Type", "application/json")
			if err := json.NewEncoder(w).Encode(about(name, "http://"+r.Host, packages[name])); err != nil {
				t.Error(err)
			}
		default: // for other platforms; npm can do without it
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// about returns the registry's description of a package. The tarballs are not compressed, which npm accepts.
func about(name, url string, versions map[string]npmPackage) map[string]any {
	all, latest := map[string]any{}, ""
	for version, p := range versions {
		m := maps.Clone(p.manifest)
		m["dist"] = map[string]any{"tarball": url + "/" + name + "/-/" + version}
		all[version], latest = m, version
	}
	return map[string]any{"name": name, "versions": all, "dist-tags": map[string]any{"latest": latest}}
}

func (p npmPackage) pack(out io.Writer) error {
	w := tar.NewWriter(out)
	if err := addFolder(w, p.folder, "package"); err != nil {
		return err
	}
	return w.Close()
}

// nodeImageTimeout bounds the creation of an image with Node.js.
const nodeImageTimeout = 3 * time.Minute

// NodeImage creates an image with the given name until the test ends: a Debian with the machine's own Node.js and npm, configured for the
// given registry. Its apt uses the machine's Debian mirror. Only one test of the machine can hold the name.
func (h Host) NodeImage(t testing.TB, name, registry string) {
	t.Helper()
	debian := h.Debian(t)
	node, err := findNode()
	npm := filepath.Join(filepath.Dir(filepath.Dir(node)), "lib/node_modules/npm")
	if err == nil {
		_, err = os.Stat(npm)
	}
	need.Part(t, "node", err)
	t.Cleanup(onceOnThisMachine(t, "flynn-test-"+strings.NewReplacer("/", "-", ":", "-").Replace(name)))
	ctx, cancel := context.WithTimeout(t.Context(), nodeImageTimeout)
	defer cancel()
	r, w := io.Pipe()
	go func() { w.CloseWithError(nodeContext(w, debian, node, npm, registry)) }() // ends with its reader
	defer r.Close()
	h.build(ctx, t, name, r)
}

func nodeContext(out io.Writer, debian, node, npm, registry string) error {
	w := tar.NewWriter(out)
	add(w, tar.Header{Typeflag: tar.TypeReg, Name: "Dockerfile", Mode: 0o644}, fmt.Appendf(nil, `FROM %s
COPY files /usr/local
RUN ln -s ../lib/node_modules/npm/bin/npm-cli.js /usr/local/bin/npm && useradd --uid 1000 --create-home node
ENV npm_config_registry=%s
CMD ["node"]
`, debian, registry))
	if err := addFile(w, node, "files/bin/node"); err != nil {
		return err
	}
	if err := addFolder(w, npm, "files/lib/node_modules/npm"); err != nil {
		return err
	}
	return w.Close()
}
