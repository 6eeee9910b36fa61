// Package hosttest runs the real program against a fake chat platform: `flynn serve` with the plugin
// examples/lines-channel, both built from this tree.
//
// Start with Build and Platform. It is for tests and benchmarks of the whole program, and imports nothing of the host: it
// uses Flynn as an operator does.
package hosttest

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/flynnhost/flynn/sdk/need"
)

// Tags are the build tags of a release. Tests use the same, so that nothing is compiled twice.
const Tags = "urfave_cli_no_template,grpcnotrace,embedtz"

// Build builds the programs as in a release into a folder, and returns it.
func Build(t testing.TB) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for _, pkg := range []string{"cmd/flynn", "examples/lines-channel"} {
		link(t, pkg, filepath.Join(dir, filepath.Base(pkg)), "-tags="+Tags)
	}
	return dir
}

// BuildPlugin builds a plugin of this tree, such as plugins/mcp, as a release has it, into the folder bin of dir.
func BuildPlugin(t testing.TB, pkg, dir string) {
	t.Helper()
	bin := filepath.Join(dir, "bin")
	if err := os.MkdirAll(bin, 0o755); err != nil {
		t.Fatal(err)
	}
	link(t, pkg, filepath.Join(bin, filepath.Base(pkg)))
}

// link builds a program, with further flags of go build. It is linked once for all tests: the go command keeps the programs that it runs,
// which go build does not.
func link(t testing.TB, pkg, program string, flags ...string) {
	t.Helper()
	need.Source(t)
	args := append([]string{"run", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-exec=cp"}, flags...)
	cmd := exec.Command("go", append(args, "github.com/flynnhost/flynn/"+pkg, program)...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v\n%s", pkg, err, out)
	}
}

// Config describes a set-up.
type Config struct {
	Bin string // folder of Build
	// Platform is the address of a Platform; without one there is no channel.
	Platform string
	// Channels are further channels of the same plugin: the addresses of their platforms by instance.
	Channels map[string]string
	// Forgetful says that the platform does not recognise repeated keys.
	Forgetful bool
	// Shared says that several hosts can run it side by side.
	Shared bool
	// Rich says that it edits, deletes, shows typing and has files.
	Rich bool
	// Channel are further keys of each channel's table.
	Channel string
	// Queue is the mode for messages that come while an answer is made; collect.
	Queue string
	// Access are further keys of [access].
	Access string
	// More are further tables of the configuration.
	More string
	// Database is the address of a Postgres database for the store; without one the store is a file.
	Database string
	// Folder is that of flynn.toml; the Dir of the set-up when empty.
	Folder string
	// Env are further variables of the process.
	Env []string
}

// Program is one set-up of Flynn, whose process can be started, killed and started again. Its methods are for one
// goroutine.
type Program struct {
	Dir string // of everything that the set-up writes
	URL string // of the gateway
	Log string // file with everything that the processes wrote

	cfg    Config
	config string // path of flynn.toml
	text   string // the output
	log    *os.File
	cmd    *exec.Cmd     // nil while no process was started that was not stopped
	ended  chan struct{} // closed when the process is gone; exit is valid then
	exit   error
}

// New writes the configuration of a set-up with a fresh store. When the test ends, the process that runs is killed.
func New(t testing.TB, cfg Config) *Program {
	t.Helper()
	dir, err := os.MkdirTemp("", "flynn") // short, since it holds sockets
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	p := &Program{cfg: cfg, Dir: dir, config: filepath.Join(cmp.Or(cfg.Folder, dir), "flynn.toml"), Log: filepath.Join(dir, "log")}
	if err := p.prepare(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.Kill()
		p.log.Close()
	})
	return p
}

func (p *Program) prepare() error {
	address, err := freeAddress()
	if err != nil {
		return err
	}
	p.URL = "http://" + address
	if p.log, err = os.OpenFile(p.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600); err != nil {
		return err
	}
	database := ""
	if p.cfg.Database != "" {
		database = fmt.Sprintf("url_env = %q", databaseVariable)
	}
	text := fmt.Sprintf(baseConfig, p.cfg.Access, address, filepath.Join(p.Dir, "store"), database, cmp.Or(p.cfg.Queue, "collect"), p.cfg.More)
	channels := maps.Clone(p.cfg.Channels)
	if p.cfg.Platform != "" {
		channels = map[string]string{"platform": p.cfg.Platform}
		maps.Copy(channels, p.cfg.Channels)
	}
	if len(channels) > 0 {
		plugin, err := p.writePlugin()
		if err != nil {
			return err
		}
		for _, name := range slices.Sorted(maps.Keys(channels)) {
			text += fmt.Sprintf(channelConfig, name, channels[name], p.cfg.Channel)
		}
		text += fmt.Sprintf(devPathConfig, plugin)
	}
	p.text = text
	return p.Configure("")
}

// Configuration is the text of flynn.toml.
func (p *Program) Configuration() (string, error) {
	text, err := os.ReadFile(p.config)
	return string(text), err
}

// Configure writes a new configuration, followed by more. A running process notices.
func (p *Program) Configure(more string) error {
	next := p.config + ".next"
	if err := os.WriteFile(next, []byte(p.text+more), 0o600); err != nil {
		return err
	}
	return os.Rename(next, p.config)
}

// freeAddress finds a port that stays free while the process is down: below those that systems give to outgoing
// connections, where another program could be given it.
func freeAddress() (string, error) {
	const first, last = 10_000, 32_000
	for range 100 {
		address := fmt.Sprintf("127.0.0.1:%d", first+rand.IntN(last-first))
		lis, err := net.Listen("tcp", address)
		if err == nil {
			return address, lis.Close()
		}
	}
	return "", errors.New("find a free port: none of 100 is free")
}

const baseConfig = `
[agent_configs.main]
tool_profile = "coding"

[memory]
max_notes = 100_000

[routing]
default_agent = "main"

[models.default]
provider = "demo"
model = "demo"

[access]
mode = "open"
groups = "all"
rate_per_minute = 100_000
conversation_rate_per_minute = 100_000
unknown_rate_per_minute = 100_000
%s

[gateway]
listen = %q

[store]
dir = %q
%s

# One person writes in many private chats here, and many in one.
[sessions]
private = "conversation"
queue = %q

%s
`

// databaseVariable holds the address of the database, if there is one.
const databaseVariable = "FLYNN_TEST_STORE"

const channelConfig = `
[channels.%s]
plugin = "lines-channel"
address = %q
%s
`

const devPathConfig = `
[plugins.dev_paths]
lines-channel = %q
`

func (p *Program) writePlugin() (dir string, err error) {
	dir = filepath.Join(p.Dir, "plugin")
	if err := os.MkdirAll(filepath.Join(dir, "bin"), 0o700); err != nil {
		return "", err
	}
	if err := os.Link(filepath.Join(p.cfg.Bin, "lines-channel"), filepath.Join(dir, "bin", "lines-channel")); err != nil {
		return "", err
	}
	command := []string{`"bin/lines-channel"`}
	if p.cfg.Forgetful {
		command = append(command, `"-forgetful"`)
	}
	if p.cfg.Shared {
		command = append(command, `"-shared"`)
	}
	if p.cfg.Rich {
		command = append(command, `"-rich"`)
	}
	manifest := fmt.Sprintf(pluginManifest, "["+strings.Join(command, ", ")+"]", !p.cfg.Forgetful)
	if p.cfg.Shared {
		manifest += "shared = true\n"
	}
	if p.cfg.Rich {
		manifest += richManifest
	}
	return dir, os.WriteFile(filepath.Join(dir, "plugin.toml"), []byte(manifest), 0o600)
}

const pluginManifest = `
manifest = 1
name = "lines-channel"
version = "0.1.0"
description = "Connects a program that speaks JSON lines over TCP"
kinds = ["channel"]
protocols = [1]

[exec]
any = %s

[channel]
idempotent = %v
markdown = true
senders = "proved"
`

const richManifest = `
max_text = 400
max_attachment = "256KiB"
edit = true
min_edit_interval = "100ms"
delete = true
typing = true
fetch = true
upload = true
`

// Start starts a process. It returns as soon as the process exists.
func (p *Program) Start() error {
	if p.cmd != nil {
		return errors.New("start flynn: it runs")
	}
	cmd := exec.Command(filepath.Join(p.cfg.Bin, "flynn"), "serve", "--config", p.config)
	cmd.Dir = p.Dir
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + p.Dir, "XDG_RUNTIME_DIR=" + p.Dir, databaseVariable + "=" + p.cfg.Database}, p.cfg.Env...)
	cmd.Stdout, cmd.Stderr = p.log, p.log
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start flynn: %w", err)
	}
	p.cmd, p.ended = cmd, make(chan struct{})
	go p.wait(cmd, p.ended) // ends with the process, for which Kill and Stop wait
	return nil
}

func (p *Program) wait(cmd *exec.Cmd, ended chan<- struct{}) {
	p.exit = cmd.Wait()
	close(ended)
}

// Ended is closed when the process is gone.
func (p *Program) Ended() <-chan struct{} { return p.ended }

// PID is the number of the process that runs.
func (p *Program) PID() int { return p.cmd.Process.Pid }

// Ready waits until the gateway reports that the host is ready.
func (p *Program) Ready(ctx context.Context) error { return p.ReadyWithin(ctx, 5*time.Millisecond) }

// ReadyWithin is Ready for what measures the start: it asks that often, which takes as much of a processor as the start itself.
func (p *Program) ReadyWithin(ctx context.Context, every time.Duration) error {
	client := &http.Client{Timeout: time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	for tick := time.NewTicker(every); ; {
		if ready(ctx, client, p.URL+"/readyz") {
			tick.Stop()
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			tick.Stop()
			return fmt.Errorf("wait for flynn: %w; its log ends with:\n%s", ctx.Err(), p.Tail())
		}
	}
}

func ready(ctx context.Context, client *http.Client, url string) bool {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false
	}
	res, err := client.Do(req)
	if err != nil {
		return false
	}
	io.Copy(io.Discard, res.Body)
	res.Body.Close()
	return res.StatusCode == http.StatusOK
}

// Call asks the API as the owner does. A nil body makes it a GET; a nil answer is not wanted.
func (p *Program) Call(ctx context.Context, path string, body, answer any) error {
	method, text := http.MethodGet, []byte(nil)
	if body != nil {
		method = http.MethodPost
		var err error
		if text, err = json.Marshal(body); err != nil {
			return err
		}
	}
	if m, rest, ok := strings.Cut(path, " "); ok {
		method, path = m, rest
	}
	token, err := os.ReadFile(filepath.Join(p.Dir, "store", "gateway.token"))
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, method, p.URL+path, bytes.NewReader(text))
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+string(bytes.TrimSpace(token)))
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if text, err = io.ReadAll(resp.Body); err != nil {
		return err
	}
	if resp.StatusCode >= 300 {
		return &StatusError{Path: path, Status: resp.StatusCode, Text: string(text)}
	}
	if answer == nil {
		return nil
	}
	if err := json.Unmarshal(text, answer); err != nil {
		return fmt.Errorf("%s: %w in %s", path, err, text)
	}
	return nil
}

// StatusError is an answer of the API that refuses.
type StatusError struct {
	Path   string
	Status int
	Text   string
}

func (e *StatusError) Error() string {
	return fmt.Sprintf("%s: status %d: %s", e.Path, e.Status, e.Text)
}

// Kill ends the process like a power cut, if one runs.
func (p *Program) Kill() error {
	if p.cmd == nil {
		return nil
	}
	err := p.cmd.Process.Kill()
	<-p.ended
	p.cmd = nil
	if err != nil {
		return fmt.Errorf("flynn had ended before it was killed: %w", p.exit)
	}
	return nil
}

// Pause stops the process until Resume, as a machine does that is suspended.
func (p *Program) Pause() error { return p.cmd.Process.Signal(syscall.SIGSTOP) }

// Resume lets the process go on.
func (p *Program) Resume() error { return p.cmd.Process.Signal(syscall.SIGCONT) }

// Stop ends the process in order.
func (p *Program) Stop() error {
	if p.cmd == nil {
		return nil
	}
	if err := p.cmd.Process.Signal(os.Interrupt); err != nil {
		return p.Kill()
	}
	select {
	case <-p.ended:
		p.cmd = nil
		return p.exit
	case <-time.After(stopTimeout):
		return errors.Join(fmt.Errorf("flynn did not stop within %s; its log ends with:\n%s", stopTimeout, p.Tail()), p.Kill())
	}
}

const stopTimeout = time.Minute

// Dump ends the process and returns everything that it wrote, with the stacks of its goroutines at the end.
func (p *Program) Dump() (string, error) {
	if err := p.cmd.Process.Signal(syscall.SIGQUIT); err != nil {
		return "", err
	}
	<-p.ended
	p.cmd = nil
	text, err := os.ReadFile(p.Log)
	return string(text), err
}

// Tail is the end of the log.
func (p *Program) Tail() string {
	text, err := os.ReadFile(p.Log)
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-4096):])
}
