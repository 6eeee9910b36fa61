package image_test

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/flynnhost/flynn/host/sandbox/image"
)

// A real apt installs from a repository inside the image: with a network, the rest of the way is apt's own.
func TestAptInstalls(t *testing.T) {
	r := newRig(t, nil)
	debian := r.host.Debian(t)
	dir := t.TempDir()
	repository(t, filepath.Join(dir, "repo"))
	if err := os.WriteFile(filepath.Join(dir, "Dockerfile"), []byte("FROM "+debian+`
RUN rm -rf /etc/apt/sources.list /etc/apt/sources.list.d
COPY repo /repo
RUN echo 'deb [trusted=yes] file:/repo ./' > /etc/apt/sources.list
RUN useradd agent
USER agent
`), 0o600); err != nil {
		t.Fatal(err)
	}
	base := r.prepare(image.Recipe{Dockerfile: filepath.Join(dir, "Dockerfile"), Network: "none"})
	info, err := r.host.Driver.InspectImage(t.Context(), base)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name     string
		packages []string
		want     string // printed by what was installed, or in the error
		fails    bool
	}{
		{"newest", []string{"flynn-greeting"}, "hello from 2.0\n", false},
		{"version", []string{"flynn-greeting=1.0"}, "hello from 1.0\n", false},
		{"no such version", []string{"flynn-greeting=3.0"}, "Version '3.0' for 'flynn-greeting' was not found", true},
		{"no such package", []string{"flynn-nothing"}, "Unable to locate package flynn-nothing", true},
		{"a name is no expression", []string{"flynn.greeting"}, "Unable to locate package flynn.greeting", true},
		{"its script fails", []string{"flynn-broken"}, "flynn-broken", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			var n notices
			before := r.madeOn(t.Context(), info.ID)
			ref, err := r.Prepare(n.under(t.Context()), image.Recipe{Image: base, Packages: c.packages, Network: "none"})
			if c.fails {
				var step *image.StepError
				if !errors.As(err, &step) || !strings.Contains(strings.Join(step.Output, "\n"), c.want) {
					t.Errorf("got %v", err)
				}
				if after := r.madeOn(t.Context(), info.ID); len(after) != len(before) {
					t.Errorf("left %q", after)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := r.run(ref, "flynn-greeting; ls -d /var/lib/apt/lists/* /var/cache/apt/archives/*.deb 2>/dev/null; stat -c '%U %a' /usr/bin/flynn-greeting /var/lib/flynn-greeting"); got !=
				c.want+"root 755\nagent 2750\n" {
				t.Errorf("got %q", got)
			}
			if made, err := r.host.API.ImageInspect(t.Context(), ref); err != nil || made.Config.User != "agent" || len(made.Config.Entrypoint) != 0 || strings.Join(made.Config.Cmd, " ") != "bash" {
				t.Errorf("made %+v, %v", made.Config, err)
			}
			if !strings.Contains(n.all(), "Setting up flynn-greeting") {
				t.Errorf("told %q", n.all())
			}
		})
	}
}

// repository makes a folder that apt can install from.
func repository(t *testing.T, dir string) {
	t.Helper()
	var index strings.Builder
	for _, p := range []struct{ name, version, postinst string }{
		{"flynn-greeting", "1.0", "chown agent /var/lib/flynn-greeting && chmod 2750 /var/lib/flynn-greeting"},
		{"flynn-greeting", "2.0", "chown agent /var/lib/flynn-greeting && chmod 2750 /var/lib/flynn-greeting"},
		{"flynn-broken", "1.0", "exit 1"},
	} {
		root := filepath.Join(t.TempDir(), "root")
		control := fmt.Sprintf("Package: %s\nVersion: %s\nArchitecture: all\nMaintainer: Nobody <nobody@example.org>\nDescription: a test\n", p.name, p.version)
		write(t, root, map[string]string{
			"DEBIAN/control":              control,
			"DEBIAN/postinst":             "#!/bin/sh\nset -e\n" + p.postinst + "\n",
			"usr/bin/" + p.name:           "#!/bin/sh\necho hello from " + p.version + "\n",
			"var/lib/" + p.name + "/kept": "",
		})
		for _, program := range []string{"DEBIAN/postinst", "usr/bin/" + p.name} {
			if err := os.Chmod(filepath.Join(root, program), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		file := p.name + "_" + p.version + "_all.deb"
		if out, err := exec.Command("dpkg-deb", "--root-owner-group", "--build", root, filepath.Join(dir, file)).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		content, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(content)
		fmt.Fprintf(&index, "%sFilename: ./%s\nSize: %d\nSHA256: %s\n\n", control, file, len(content), hex.EncodeToString(sum[:]))
	}
	write(t, dir, map[string]string{"Packages": index.String()})
}
