package sandboxtest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/client"

	"github.com/flynnhost/flynn/sdk/need"
)

// debianTimeout bounds the creation of the image, which takes half a minute with a fast mirror.
const debianTimeout = 5 * time.Minute

// Debian returns the name of an image with a minimal Debian of this machine's release, from the mirror that its apt uses. It is created
// once per machine; the name depends on everything that goes into it.
func (h Host) Debian(t testing.TB) string {
	t.Helper()
	release, mirror, err := debianSource()
	need.Part(t, "debootstrap", err)
	_, err = exec.LookPath("debootstrap")
	need.Part(t, "debootstrap", err)
	name := "flynn-test/debian:" + digest("1 ", release, " ", mirror)
	unlock := onceOnThisMachine(t, "flynn-test-debian")
	defer unlock()
	if _, err := h.API.ImageInspect(t.Context(), name); err == nil {
		return name
	}
	ctx, cancel := context.WithTimeout(t.Context(), debianTimeout)
	defer cancel()
	need.Part(t, "debootstrap", importDebian(ctx, h.API, t.TempDir(), name, release, mirror))
	return name
}

// onceOnThisMachine waits for other tests that do the same, also in other processes.
func onceOnThisMachine(t testing.TB, what string) (unlock func()) {
	t.Helper()
	f, err := os.OpenFile(filepath.Join(os.TempDir(), what+".lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	return func() { f.Close() }
}

// debianSource returns the release and the first mirror of the machine's own Debian.
func debianSource() (release, mirror string, err error) {
	about, err := os.ReadFile("/etc/os-release")
	if err != nil {
		return "", "", err
	}
	for line := range strings.Lines(string(about)) {
		if name, is := strings.CutPrefix(strings.TrimSpace(line), "VERSION_CODENAME="); is {
			release = name
		}
	}
	files, _ := filepath.Glob("/etc/apt/sources.list.d/*")
	for _, file := range append(files, "/etc/apt/sources.list") {
		if mirror == "" {
			mirror = mirrorIn(file, release)
		}
	}
	if release == "" || mirror == "" {
		return "", "", errors.New("this machine's apt has no mirror of its own release")
	}
	return release, mirror, nil
}

// mirrorIn returns the first address for the release in a file of either of apt's formats.
func mirrorIn(file, release string) string {
	f, err := os.Open(file)
	if err != nil {
		return ""
	}
	defer f.Close()
	address := ""
	for scan := bufio.NewScanner(f); scan.Scan(); {
		words := strings.Fields(scan.Text())
		switch {
		case len(words) >= 2 && words[0] == "URIs:":
			address = words[1]
		case len(words) >= 2 && words[0] == "Suites:" && words[1] == release && address != "":
			return address
		case len(words) >= 3 && words[0] == "deb":
			if words = words[1:]; strings.HasPrefix(words[0], "[") {
				for len(words) > 2 && !strings.HasSuffix(words[0], "]") {
					words = words[1:]
				}
				words = words[1:]
			}
			if len(words) >= 2 && words[1] == release {
				return words[0]
			}
		}
	}
	return ""
}

func importDebian(ctx context.Context, api *client.Client, dir, name, release, mirror string) error {
	root := filepath.Join(dir, "root")
	if out, err := exec.CommandContext(ctx, "debootstrap", "--variant=minbase", release, root, mirror).CombinedOutput(); err != nil {
		return fmt.Errorf("debootstrap: %w: %s", err, out[max(0, len(out)-2000):])
	}
	archive := exec.CommandContext(ctx, "tar", "-C", root, "--exclude=./var/cache/apt/archives/*", "--exclude=./usr/share/doc/*",
		"--exclude=./usr/share/locale/*", "--exclude=./var/lib/apt/lists/*", "--exclude=./dev/*", "-c", ".")
	files, err := archive.StdoutPipe()
	if err != nil {
		return err
	}
	if err := archive.Start(); err != nil {
		return err
	}
	body, err := api.ImageImport(ctx, image.ImportSource{Source: files, SourceName: "-"}, name, image.ImportOptions{
		Changes: []string{"ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", `CMD ["bash"]`},
	})
	if err == nil {
		_, err = io.Copy(io.Discard, body)
		body.Close()
	}
	return errors.Join(err, archive.Wait())
}
