// Package livetest runs the real program with real parts: flynn itself, plugin processes, ngircd, a Docker engine, a browser.
package livetest

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/model/modeltest"
	"github.com/flynnhost/flynn/plugins/telegram/telegramtest"
	"github.com/flynnhost/flynn/sdk/need"
)

// programs are built once for all tests.
var programs struct {
	once sync.Once
	dir  string
	err  error
}

func TestMain(m *testing.M) {
	// Here, since tests that set variables cannot run side by side.
	os.Setenv("FLYNN_LIVETEST_TELEGRAM", telegramtest.Token)
	os.Setenv("FLYNN_LIVETEST_KEY", modeltest.Key)
	code := m.Run()
	if programs.dir != "" {
		os.RemoveAll(programs.dir)
	}
	os.Exit(code)
}

const root = "../../../.."

// patience bounds every wait of these tests; a quiet machine needs a fraction of it.
const patience = time.Minute

// bin is the folder with flynn, flynn-sandboxd and the plugin irc.
func bin(t testing.TB) string {
	t.Helper()
	programs.once.Do(func() {
		if programs.dir, programs.err = os.MkdirTemp("", "flynn-live"); programs.err != nil {
			return
		}
		irc := filepath.Join(programs.dir, "irc", "bin")
		programs.err = errors.Join(build(programs.dir, "./cmd/flynn", raced), build(programs.dir, "./cmd/flynn-sandboxd", false), build(irc, "./plugins/irc", raced),
			build(programs.dir, "./examples/lines-channel", raced))
		if programs.err == nil {
			programs.err = describe(filepath.Join(programs.dir, "irc"), "plugins/irc")
		}
	})
	if programs.err != nil {
		t.Fatal(programs.err)
	}
	return programs.dir
}

// startTimeout is the line of a manifest that says how long the plugin has to get ready.
var startTimeout = regexp.MustCompile(`(?m)^start_timeout\s*=.*$`)

// describe puts beside the program of a plugin what the host reads of it. It has a minute to get ready: the machine may have other work.
func describe(dir, pkg string) error {
	for _, name := range []string{"plugin.toml", "settings.schema.json"} {
		text, err := os.ReadFile(filepath.Join(root, pkg, name))
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), startTimeout.ReplaceAll(text, []byte(`start_timeout = "1m"`)), 0o644)
		}
		if err != nil && (name == "plugin.toml" || !errors.Is(err, fs.ErrNotExist)) { // an example has no schema
			return err
		}
	}
	return nil
}

// build builds a program, with the race detector when the tests have it. Then FLYNN_TEST_UNRACED are the flags with which the justfile has
// them compiled, as GOFLAGS has them: with others, everything would be compiled once more.
func build(out, pkg string, race bool) error {
	if err := need.Sources(); err != nil {
		return err
	}
	cmd := exec.Command("go", "build", "-buildvcs=false", "-ldflags=-s -w", "-race="+strconv.FormatBool(race), "-o", out+"/", pkg)
	cmd.Dir = root
	cmd.Env = os.Environ()
	if race {
		cmd.Env = append(cmd.Env, "GOFLAGS="+os.Getenv("GOFLAGS")+" "+os.Getenv("FLYNN_TEST_UNRACED"))
	} else {
		cmd.Env = append(cmd.Env, "CGO_ENABLED=0")
	}
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", pkg, err, text)
	}
	return nil
}

// site is a folder with a configuration, and the host that serves it.
type site struct {
	t    testing.TB
	dir  string
	port string
	cmd  *exec.Cmd
	log  *safeBuffer
	url  string
	// program is that of the host and of subcommands.
	program string
}

// newSite writes flynn.toml. %DIR% and %BIN% in it stand for the site's folder and that of the programs.
func newSite(t testing.TB, config string) *site {
	t.Helper()
	s := &site{t: t, dir: t.TempDir(), port: freePort(t), log: &safeBuffer{}, program: filepath.Join(bin(t), "flynn")}
	s.write("flynn.toml", config)
	t.Cleanup(func() {
		s.stop()
		if strings.Contains(s.log.String(), "DATA RACE") {
			t.Error("the host has a data race")
		}
		if t.Failed() {
			t.Logf("log of the host:\n%s", s.log.String())
		}
	})
	return s
}

// freePort finds a port that stays free while nobody listens.
func freePort(t testing.TB) string {
	t.Helper()
	_, port, err := net.SplitHostPort(need.Address(t))
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// write writes a file of the site.
func (s *site) write(name, text string) {
	s.t.Helper()
	text = strings.NewReplacer("%DIR%", s.dir, "%BIN%", bin(s.t), "%PORT%", s.port).Replace(text)
	path := filepath.Join(s.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(path+".new", []byte(text), 0o644); err != nil {
		s.t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		s.t.Fatal(err)
	}
}

// start starts the host and waits until it is ready.
func (s *site) start() {
	s.t.Helper()
	if err := s.starts(); err != nil {
		s.t.Fatal(err)
	}
}

// starts is start for a host that may refuse to start, which is the error.
func (s *site) starts() error {
	s.t.Helper()
	s.cmd = exec.Command(s.program, "--config", filepath.Join(s.dir, "flynn.toml"), "serve")
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	s.cmd.Stderr = s.log
	s.cmd.Env = append(os.Environ(), "XDG_RUNTIME_DIR="+filepath.Join(bin(s.t), "run"))
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		s.cmd.Wait() // its last words
		return fmt.Errorf("the host does not start: %w\n%s", err, s.log.String())
	}
	s.eventually("the host is ready", func() error {
		resp, err := http.Get("http://127.0.0.1:" + s.port + "/readyz")
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return errors.New(resp.Status)
		}
		return nil
	})
	page, stderr, err := s.flynn("", "web")
	if err != nil {
		s.t.Fatalf("%v: %s", err, stderr)
	}
	s.url = strings.TrimSpace(page)
	return nil
}

// stop ends the host as an operator would.
func (s *site) stop() {
	if s.cmd == nil || s.cmd.ProcessState != nil {
		return
	}
	s.cmd.Process.Signal(syscall.SIGTERM)
	stuck := time.AfterFunc(patience, func() { s.cmd.Process.Kill() })
	defer stuck.Stop()
	s.cmd.Wait()
}

// kill ends the host as a power cut would.
func (s *site) kill() {
	s.cmd.Process.Kill()
	s.cmd.Wait()
}

// flynn runs another subcommand against the site.
func (s *site) flynn(stdin string, args ...string) (stdout, stderr string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, s.program, append([]string{"--config", filepath.Join(s.dir, "flynn.toml")}, args...)...)
	cmd.Stdin = strings.NewReader(stdin)
	cmd.Dir = root
	var o, e bytes.Buffer
	cmd.Stdout, cmd.Stderr = &o, &e
	err = cmd.Run()
	return o.String(), e.String(), err
}

// eventually polls until f succeeds; what it polls is another process.
func (s *site) eventually(what string, f func() error) {
	s.t.Helper()
	var err error
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if err = f(); err == nil {
			return
		}
	}
	s.t.Fatalf("%s: not within %s: %v", what, patience, err)
}

// safeBuffer is a buffer that a process writes while a test reads.
type safeBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *safeBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}
