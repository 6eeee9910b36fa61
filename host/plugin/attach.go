package plugin

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	goplugin "github.com/hashicorp/go-plugin"

	"github.com/flynnhost/flynn/host/internal/fileowner"
)

// ParseAttach parses "INSTANCE=unix:PATH": an instance whose process a developer has started, for example under a debugger.
func ParseAttach(text string) (instance, address string, err error) {
	instance, address, ok := strings.Cut(text, "=")
	path, isUnix := strings.CutPrefix(address, "unix:")
	if !ok || !isUnix || !validName().MatchString(instance) || !filepath.IsAbs(path) {
		return "", "", fmt.Errorf("%q must be INSTANCE=unix:/PATH, as the plugin prints it when it runs with -debug", text)
	}
	return instance, address, nil
}

// attached is a process that a developer has started. It is not verified, and the host never ends it, neither by a call nor by a signal. The
// host closes its connection, and connects again after a pause if the process was gone.
type attached struct {
	*running
	letGo sync.Once
	over  chan struct{}
}

var _ process = (*attached)(nil)

// attach connects to the process at address instead of starting one. The process still has to match the manifest.
func (h *Host) attach(sup *supervisor, p *pack, o launchSpec, address string) (process, error) {
	if o.beside {
		return nil, fmt.Errorf("the instance is attached to %s: there is no second process of it", address)
	}
	sup.update(func(s *Status) { s.Attached = address })
	path := strings.TrimPrefix(address, "unix:")
	if err := ownSocket(path); err != nil {
		return nil, fmt.Errorf("attach: %w", err)
	}
	stateDir, err := h.stateDir(p.manifest, sup.instance.Name)
	if err != nil {
		return nil, fmt.Errorf("create the state folder: %w", err)
	}
	dial := &launcher{host: h, config: &goplugin.ClientConfig{}}
	conn, err := dial.connect(&net.UnixAddr{Name: path, Net: "unix"}, h.observe(sup.instance.Name))
	if err != nil {
		return nil, fmt.Errorf("attach to %s: %w", address, err)
	}
	sup.log.Warn("plugin is attached: it was started by hand, is not verified, and is not stopped by the host", "address", address)
	stdioOn, deafen := context.WithCancel(context.Background())
	return &attached{over: make(chan struct{}), running: &running{
		conn: conn, manifest: p.manifest, schema: p.schema, release: rand.Text(), instance: sup.instance, stateDir: stateDir, host: h,
		output: newOutput(sup.log, sup.instance.Secrets), log: sup.log, timeouts: h.timeouts, stdioOn: stdioOn, deafen: deafen,
	}}, nil
}

// ownSocket refuses a socket of another user, because secrets are sent through it.
func ownSocket(path string) error {
	info, err := os.Lstat(path)
	if err != nil {
		return fmt.Errorf("%w: start the plugin with -debug first", err)
	}
	if info.Mode().Type() != os.ModeSocket {
		return fmt.Errorf("%s is not a socket", path)
	}
	if uid, ok := fileowner.Of(info); ok && uid != os.Geteuid() {
		return fmt.Errorf("%s belongs to user %d", path, uid)
	}
	return nil
}

func (a *attached) pid() int                { return 0 }
func (a *attached) exited() <-chan struct{} { return a.over }
func (a *attached) failure() error {
	return errors.New("the host has disconnected from the attached process")
}

// stopTimeout leaves time for calls in flight; the process itself keeps running.
func (a *attached) stopTimeout() time.Duration { return a.running.stopTimeout() }

// shutdown does nothing: kill closes the connection.
func (a *attached) shutdown(context.Context) {}

// kill closes the connection; the process keeps running.
func (a *attached) kill() {
	a.letGo.Do(func() {
		a.grant.end()
		a.deafen()
		_ = a.conn.Close()
		a.stdio.Wait()
		close(a.over)
	})
}
