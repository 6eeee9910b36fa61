package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/sdk/need"
)

// pty opens a pseudo-terminal. Closing ours hangs it up.
func pty(t *testing.T) (ours, theirs *os.File) {
	t.Helper()
	ours, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ours.Close() })
	fd := int(ours.Fd())
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	theirs, err = os.OpenFile("/dev/pts/"+strconv.Itoa(number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = theirs.Close() })
	return ours, theirs
}

// served is a flynn serve of its own session.
type served struct {
	t            *testing.T
	dir, address string
	cmd          *exec.Cmd
	ended        chan error
	out          bytes.Buffer
}

// serveIn starts flynn serve: on a terminal that is its controlling one, or with nil as a service. nohup ignores SIGHUP before.
func serveIn(t *testing.T, terminal *os.File, nohup bool) *served {
	t.Helper()
	address, err := need.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	s := &served{t: t, dir: t.TempDir(), address: address, ended: make(chan error, 1)}
	s.key("one")
	s.write("flynn.toml", `agent_configs = { main = {} }
routing.default_agent = "main"
store.dir = "store"
gateway = { listen = "`+address+`", token_file = "token" }
models.default = { provider = "openai", model = "m", base_url = "http://127.0.0.1:1", api_key_file = "key" }
`)
	args := []string{"flynn", "serve", "--config", filepath.Join(s.dir, "flynn.toml")}
	if nohup {
		args = append([]string{"sh", "-c", `trap "" HUP; exec "$@"`, "sh"}, args...)
	}
	s.cmd = exec.Command(args[0], args[1:]...)
	s.cmd.Env = append(os.Environ(), "HOME="+s.dir)
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if terminal != nil {
		s.cmd.Stdin, s.cmd.Stdout, s.cmd.Stderr = terminal, terminal, terminal
		s.cmd.SysProcAttr.Setctty = true
	} else {
		s.cmd.Stdout, s.cmd.Stderr = &s.out, &s.out
	}
	// The tests may run under nohup, and what is ignored is inherited; what is asked for is not.
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	defer signal.Stop(hangup)
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { s.ended <- s.cmd.Wait() }()
	t.Cleanup(func() {
		_ = s.cmd.Process.Kill()
	})
	s.until("it serves", func() bool { return s.generation() > 0 })
	return s
}

func (s *served) write(name, text string) {
	s.t.Helper()
	if err := os.WriteFile(filepath.Join(s.dir, name), []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// key writes the key of the model, which only a SIGHUP makes the host read again.
func (s *served) key(text string) { s.write("key", text) }

// generation is that of the configuration in force; 0 while there is no answer.
func (s *served) generation() uint64 {
	token, err := gateway.ReadToken(filepath.Join(s.dir, "token"))
	if err != nil {
		return 0
	}
	req, err := http.NewRequest(http.MethodGet, "http://"+s.address+"/api/v1/status", nil)
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 10 * time.Second}
	resp, err := client.Do(req)
	if err != nil {
		return 0
	}
	defer resp.Body.Close()
	var status gateway.Status
	if json.NewDecoder(resp.Body).Decode(&status) != nil {
		return 0
	}
	return status.Generation
}

func (s *served) until(what string, is func() bool) {
	s.t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); !is(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			s.t.Fatalf("never: %s; it says %s", what, s.out.String())
		}
	}
}

// ends waits for the process.
func (s *served) ends() {
	s.t.Helper()
	select {
	case err := <-s.ended:
		if err != nil {
			s.t.Errorf("it ended with %v", err)
		}
	case <-time.After(2 * time.Minute):
		s.t.Fatal("it goes on")
	}
}

func (s *served) signal(sig syscall.Signal) {
	s.t.Helper()
	if err := s.cmd.Process.Signal(sig); err != nil {
		s.t.Fatal(err)
	}
}

func TestServeEndsWithItsTerminal(t *testing.T) {
	ours, theirs := pty(t)
	s := serveIn(t, theirs, false)
	_ = theirs.Close()
	_ = ours.Close()
	s.ends()
}

func TestServeReloadsInATerminal(t *testing.T) {
	_, theirs := pty(t)
	s := serveIn(t, theirs, false)
	s.key("two")
	s.signal(syscall.SIGHUP)
	s.until("it reloads", func() bool { return s.generation() == 2 })
	s.signal(syscall.SIGTERM)
	s.ends()
}

func TestServeOutlivesItsTerminalUnderNohup(t *testing.T) {
	ours, theirs := pty(t)
	s := serveIn(t, theirs, true)
	s.key("two")
	_ = theirs.Close()
	_ = ours.Close()
	s.until("it reloads", func() bool { return s.generation() == 2 })
	s.key("three")
	s.signal(syscall.SIGHUP)
	s.until("it reloads again", func() bool { return s.generation() == 3 })
	s.signal(syscall.SIGTERM)
	s.ends()
}

// A service gets SIGHUP from its manager. Its output goes to a journal, where the token must not be.
func TestServiceReloads(t *testing.T) {
	s := serveIn(t, nil, false)
	s.key("two")
	s.signal(syscall.SIGHUP)
	s.until("it reloads", func() bool { return s.generation() == 2 })
	s.signal(syscall.SIGTERM)
	s.ends()
	token, err := gateway.ReadToken(filepath.Join(s.dir, "token"))
	if err != nil {
		t.Fatal(err)
	}
	if said := s.out.String(); strings.Contains(said, token) || !strings.Contains(said, filepath.Join(s.dir, "token")) {
		t.Errorf("a journal reads %s", said)
	}
}

// TestTokenOnTheScreen is the other side: a person is shown the address that signs in.
func TestTokenOnTheScreen(t *testing.T) {
	ours, theirs := pty(t)
	s := serveIn(t, theirs, false)
	token, err := gateway.ReadToken(filepath.Join(s.dir, "token"))
	if err != nil {
		t.Fatal(err)
	}
	var shown []byte
	for buf := make([]byte, 4096); !bytes.Contains(shown, []byte("#token="+token)); {
		n, err := ours.Read(buf)
		if err != nil {
			t.Fatalf("the screen shows %q: %v", shown, err)
		}
		shown = append(shown, buf[:n]...)
	}
	s.signal(syscall.SIGTERM)
	s.ends()
}
