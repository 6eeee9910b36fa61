package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/admin/upgrade"
	"github.com/flynnhost/flynn/sdk/need"
)

// dist is a release for this machine, of the present checkout, that all tests share.
var dist struct {
	sync.Once
	dir   string
	stamp stamp
	err   error
}

func TestMain(m *testing.M) {
	code := m.Run()
	if dist.dir != "" {
		_ = os.RemoveAll(dist.dir)
	}
	os.Exit(code)
}

const testVersion = "v1.2.3"

// made returns the folder of a release for this machine.
func made(t *testing.T) string {
	t.Helper()
	need.Long(t)
	if runtime.GOOS != "linux" {
		t.Skip("the tests use the packages of a release, which are for Linux")
	}
	for _, tool := range []string{"git", "clang", "rustc", "asc"} {
		_, err := exec.LookPath(tool)
		need.Part(t, tool, err)
	}
	dist.Do(func() {
		if dist.dir, dist.err = os.MkdirTemp("", "flynn-release-test-*"); dist.err == nil {
			dist.stamp, dist.err = makeRelease(t, filepath.Join(dist.dir, "dist"), "", nil)
		}
	})
	if dist.err != nil {
		t.Fatal(dist.err)
	}
	return filepath.Join(dist.dir, "dist")
}

// makeRelease makes a release of the checkout, or of a copy of it, which has no commit that says what it is.
func makeRelease(t *testing.T, out, source string, of *stamp) (stamp, error) {
	if err := setEnv(); err != nil {
		return stamp{}, err
	}
	r, err := newRelease(t.Context(), out, testVersion, []string{runtime.GOOS + "/" + runtime.GOARCH})
	if err != nil {
		return stamp{}, err
	}
	if of != nil {
		r.source, r.stamp = source, *of
	}
	r.certificates, r.log, r.level = "/etc/ssl/certs/ca-certificates.crt", t.Output(), gzip.BestSpeed // which is but a matter of time
	return r.stamp, r.make(context.WithoutCancel(t.Context()))
}

// archive returns the path of the archive for this machine.
func archive(t *testing.T) string { return file(t, made(t), "1.2.3-linux-"+runtime.GOARCH+".tar.gz") }

// file returns the path of a file of the release, by the end of its name.
func file(t *testing.T, dir, end string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, "*"+end))
	if err != nil || len(found) != 1 {
		t.Fatalf("files of the release that end with %s: %q, %v", end, found, err)
	}
	return found[0]
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := writeFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// cmdTimeout bounds each command of the tests.
const cmdTimeout = 2 * time.Minute

// command runs a program with nothing but the given environment, and returns what it prints.
func command(t *testing.T, dir string, env []string, stdin, name string, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), cmdTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env, cmd.Stdin = dir, env, strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func must(t *testing.T, dir string, env []string, stdin, name string, args ...string) string {
	t.Helper()
	out, err := command(t, dir, env, stdin, name, args...)
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return out
}

// A release of another copy of the sources, in another folder, has the same bytes, also for a person with other habits.
func TestSameBytes(t *testing.T) {
	first := made(t)
	source, again := t.TempDir(), filepath.Join(t.TempDir(), "dist")
	if err := copyTracked(t, source); err != nil {
		t.Fatal(err)
	}
	defer syscall.Umask(syscall.Umask(0o077))
	t.Setenv("TZ", "Asia/Tokyo")
	t.Setenv("GOFLAGS", "-mod=mod -tags=netgo")
	if _, err := makeRelease(t, again, source, &dist.stamp); err != nil {
		t.Fatal(err)
	}
	if a, b := read(t, filepath.Join(first, "checksums.txt")), read(t, filepath.Join(again, "checksums.txt")); a != b {
		t.Errorf("the same commit gave other bytes:\n%s\n%s", a, b)
	}
	must(t, again, os.Environ(), "", "sha256sum", "--check", "--quiet", "checksums.txt")
}

// copyTracked copies the files of the checkout that git knows.
func copyTracked(t *testing.T, to string) error {
	root := strings.TrimSpace(must(t, ".", os.Environ(), "", "git", "rev-parse", "--show-toplevel"))
	for _, name := range strings.Split(strings.TrimRight(must(t, root, os.Environ(), "", "git", "ls-files", "-z"), "\x00"), "\x00") {
		info, err := os.Stat(filepath.Join(root, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = copyFile(filepath.Join(root, name), filepath.Join(to, name), info.Mode().Perm())
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// withParts uses a plugin and a policy that come with Flynn, by their names.
const withParts = `
[[policies]]
name   = "router"
policy = "router"

[channels.hook]
plugin      = "webhook"
deliver_url = "http://127.0.0.1:1/"
secret_env  = "HOOK_SECRET"
`

// withHooks is what that plugin needs besides, for a machine of its own.
const withHooks = `
[gateway]
hooks_listen = "127.0.0.1:7352"
`

// hookSecret is the secret of that channel.
const hookSecret = "HOOK_SECRET=whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLvTd"

// The archive is all that a machine needs: without Go, sources or a network it sets itself up and answers, with a plugin and a policy.
func TestArchive(t *testing.T) {
	dir := t.TempDir()
	must(t, dir, os.Environ(), "", "tar", "-xzf", archive(t))
	flynn := file(t, dir, "linux-"+runtime.GOARCH) + "/bin/flynn"
	address := need.Address(t)
	env := []string{"HOME=" + dir, "PATH=/nonexistent", hookSecret}

	var about struct{ Version, Commit, Date string }
	if err := json.Unmarshal([]byte(must(t, dir, env, "", flynn, "version", "--json")), &about); err != nil {
		t.Fatal(err)
	}
	if want := dist.stamp.date.Format(time.RFC3339); about.Version != testVersion || about.Commit != dist.stamp.commit || about.Date != want {
		t.Errorf("flynn version: %+v", about)
	}
	index := mirror(t, made(t), nil) + "/" + upgrade.IndexName
	if out := must(t, dir, env, "", flynn, "upgrade", "--check", "--from", index); !strings.HasPrefix(out, "flynn v1.2.3 is up to date") {
		t.Errorf("flynn upgrade --check printed %s", out)
	}

	must(t, dir, env, "", flynn, "init", "--dir", "set", "--model-provider", "demo", "--no-channel", "--listen", address)
	config := filepath.Join(dir, "set", "flynn.toml")
	hooks := "[gateway]\nhooks_listen = \"" + need.Address(t) + "\"\n"
	write(t, config, strings.Replace(read(t, config), "[gateway]\n", hooks, 1)+withParts)
	serve(t, dir, env, address, flynn, "--config", config, "serve")
	answers(t, must(t, dir, env, "hello\n", flynn, "--config", config, "chat"))
	partsRun(t, func(args ...string) string {
		return must(t, dir, env, "", flynn, append([]string{"--config", config}, args...)...)
	})
}

// answers checks the answer of the demo model.
func answers(t *testing.T, said string) {
	t.Helper()
	if !strings.Contains(said, "You said: hello") {
		t.Errorf("flynn chat printed %q", said)
	}
}

var (
	hookReady   = regexp.MustCompile(`(?m)^channel +hook +ready `)
	hookSource  = regexp.MustCompile(`(?m)^webhook .*comes with flynn: .*/lib/flynn/plugins/webhook$`)
	routerRules = regexp.MustCompile(`(?m)^router +route +running .* [1-9]\d* +0 +-$`)
)

// partsRun checks that the plugin of withParts is ready, that its policy has decided about the message, and that both come from the release.
func partsRun(t *testing.T, flynn func(args ...string) string) {
	t.Helper()
	for begin := time.Now(); !hookReady.MatchString(flynn("status")); time.Sleep(100 * time.Millisecond) {
		if time.Since(begin) > time.Minute {
			t.Fatalf("the channel is not ready:\n%s", flynn("status"))
		}
	}
	if out := flynn("plugin", "list"); !hookSource.MatchString(out) {
		t.Errorf("flynn plugin list printed\n%s", out)
	}
	if out := flynn("policy", "list"); !routerRules.MatchString(out) {
		t.Errorf("flynn policy list printed\n%s", out)
	}
}

// serve runs a host to the end of the test, and returns when it is ready.
func serve(t *testing.T, dir string, env []string, address, name string, args ...string) {
	t.Helper()
	var said bytes.Buffer
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr, cmd.WaitDelay = dir, env, &said, &said, 10*time.Second
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { defer close(ended); _ = cmd.Wait() }()
	t.Cleanup(func() { cancel(); <-ended })
	if err := awaitReady(address, ended); err != nil {
		cancel()
		<-ended
		t.Fatalf("%v:\n%s", err, said.String())
	}
}

// awaitReady waits for a host to be ready, and for no longer than it runs.
func awaitReady(address string, ended <-chan struct{}) error {
	for deadline := time.After(cmdTimeout); ; {
		if resp, err := http.Get("http://" + address + "/readyz"); err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-ended:
			return errors.New("the host has ended")
		case <-deadline:
			return errors.New("the host is not ready")
		case <-time.After(20 * time.Millisecond):
		}
	}
}
