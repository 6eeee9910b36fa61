package native_test

import (
	"archive/tar"
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/flynnhost/flynn/host/sandbox/machine"
	"github.com/flynnhost/flynn/host/sandbox/machine/machinetest/isolate"
	"github.com/flynnhost/flynn/host/sandbox/sandboxtest"
)

// busybox returns an archive of an image with busybox, and with a layer of links at all places that a sandbox has for itself.
func busybox(t *testing.T) string {
	t.Helper()
	var links bytes.Buffer
	w := tar.NewWriter(&links)
	for name, to := range map[string]string{"tmp": "/etc", "proc": "/", "dev": "../../..", "sys": "etc", "run": "/proc/1/root", "workspace": "/etc", ".flynn-sandboxd": "/bin/busybox", ".flynn": "/etc"} {
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: to}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	files, err := io.ReadAll(sandboxtest.BusyboxRoot())
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "busybox.tar")
	out, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	archive := tar.NewWriter(out)
	for _, part := range []struct{ name, text string }{
		{"files.tar", string(files)},
		{"links.tar", links.String()},
		{"image.json", `{"os":"linux","architecture":"` + runtime.GOARCH + `","config":{"Env":["PATH=/bin","FROM_IMAGE=yes","GODEBUG=gctrace=1","LD_PRELOAD=x"]}}`},
		{"manifest.json", `[{"Config":"image.json","RepoTags":["busybox:latest"],"Layers":["files.tar","links.tar"]}]`},
	} {
		if err := archive.WriteHeader(&tar.Header{Name: part.name, Mode: 0o644, Size: int64(len(part.text))}); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(archive, part.text); err != nil {
			t.Fatal(err)
		}
	}
	if err := archive.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

// unpacked returns a folder with the same files, which everybody may write to.
func unpacked(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	cmd := exec.Command("tar", "-x", "-C", root)
	cmd.Stdin = sandboxtest.BusyboxRoot()
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for name, to := range map[string]string{"lib": "/etc", "workspace": "/etc"} {
		if err := os.Symlink(to, filepath.Join(root, name)); err != nil {
			t.Fatal(err)
		}
	}
	for _, dir := range []string{"tmp", "proc", "dev"} {
		if err := os.Remove(filepath.Join(root, dir)); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink("/etc", filepath.Join(root, dir)); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := exec.Command("chmod", "-R", "a+rwX", root).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return root
}

// TestFilesOfAnImage: a sandbox sees the files of an image in place of the host's, and changes none.
func TestFilesOfAnImage(t *testing.T) {
	if isolate.Test(t) {
		lookAtImages(t)
	}
}

// TestAUserHasFilesOfAnImage is TestFilesOfAnImage for a user who may use no other ids.
func TestAUserHasFilesOfAnImage(t *testing.T) {
	if asUser(t) {
		lookAtImages(t)
	}
}

func lookAtImages(t *testing.T) {
	t.Helper()
	m := manager(t)
	for name, image := range map[string]string{"archive": busybox(t), "folder": unpacked(t)} {
		spec := small
		spec.Image = image
		s, err := m.Get(t.Context(), "web:one", "default", spec)
		if err != nil {
			t.Fatal(err)
		}
		script := func(text string) string {
			t.Helper()
			r, err := s.Exec(t.Context(), machine.Command{Script: text})
			if err != nil {
				t.Fatalf("%s: %s: %v", name, text, err)
			}
			return string(r.Stdout) + string(r.Stderr)
		}
		for text, want := range map[string]string{
			"readlink -f /bin/ls": "/bin/busybox\n",
			"ls /usr/lib /usr/share /nix /usr/bin/env 2>/dev/null": "",
			"cat /etc/passwd":                        "root:x:0:0:root:/root:/bin/sh\n",
			"ls -A /etc | tr '\\n' ' '":              "hostname hosts passwd resolv.conf ",
			"head -n1 /etc/hosts; cat /etc/hostname": "127.0.0.1 localhost sandbox\nsandbox\n",
			"ls -A /home /root /run | tr '\\n' ' '":  "/home:  /root:  /run: ",
			"for d in / /bin /etc /dev /usr/bin /sys /var; do touch $d/x 2>&1 || echo no; done | grep -c 'Read-only\\|denied'": "7\n",
			"echo 1 >/bin/busybox; echo $?": "1\n/bin/sh: can't create /bin/busybox: Read-only file system\n",
			"echo here >/workspace/f; cat /workspace/f; echo there >/tmp/f; cat /tmp/f; ls /etc/f": "here\nthere\nls: /etc/f: No such file or directory\n",
			"cat /proc/1/comm; echo x >/dev/null; [ -c /dev/zero ]; echo $?":                       ".flynn-sandboxd\n0\n",
			"cat /proc/net/dev | grep -c :":                                                        "1\n",
			"env | grep -c 'GODEBUG\\|GOMAXPROCS'":                                                 "0\n",
			"mount -t tmpfs x /tmp 2>/dev/null; echo $?":                                           "1\n",
		} {
			if got := script(text); got != want {
				t.Errorf("%s: %s: %q, want %q", name, text, got, want)
			}
		}
		if got := script("echo $FROM_IMAGE $PATH $LD_PRELOAD"); name == "archive" && got != "yes /bin x\n" {
			t.Errorf("the variables of the image: %q", got)
		}
		if text, _, err := s.ReadFile(t.Context(), "f", 0, 10); err != nil || string(text) != "here\n" {
			t.Errorf("%s: what was written is %q, %v", name, text, err)
		}
		if err := m.Destroy(t.Context(), "web:one"); err != nil {
			t.Error(err)
		}
	}
}

// TestSelfTestHoldsInAnImage attacks sandboxes that have the files of an image.
func TestSelfTestHoldsInAnImage(t *testing.T) {
	if testing.Short() || !isolate.Test(t) {
		return
	}
	attack(t, busybox(t))
}

// TestSelfTestHoldsInAnImageForAUser does so as TestSelfTestHoldsForAUser does.
func TestSelfTestHoldsInAnImageForAUser(t *testing.T) {
	if testing.Short() || !asUser(t) {
		return
	}
	attack(t, unpacked(t))
}

// TestImageThatCannotBe is refused with the key and the next step, and a folder of the host that no sandbox may see is no image.
func TestImageThatCannotBe(t *testing.T) {
	m := manager(t)
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte("FROM busybox\n"+strconv.Itoa(os.Getpid())), 0o600); err != nil {
		t.Fatal(err)
	}
	for image, says := range map[string]string{
		filepath.Join(t.TempDir(), "none"): "no such file or directory: name a folder with the files of an image, or an archive",
		file:                               "make it with docker save",
		"/":                                "image of [sandbox] may not be /, which contains",
		"/etc":                             "image of [sandbox] may not be /etc, which is or lies in",
		"/usr/../usr/share":                "may not be",
		"/home":                            "image of [sandbox] may not be /home",
		"/dev/null":                        "neither a folder nor an archive",
	} {
		spec := small
		spec.Image = image
		if s, err := m.Get(t.Context(), "web:one", "default", spec); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, %v, want %q", image, s, err, says)
		}
	}
}
