package plugin

import (
	"context"
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

// ParseAttach reads "INSTANCE=unix:PATH": an instance whose process a developer has started himself, under a debugger for example.
func ParseAttach(text string) (instance, address string, err error) {
	instance, address, ok := strings.Cut(text, "=")
	path, isUnix := strings.CutPrefix(address, "unix:")
	if !ok || !isUnix || !validName().MatchString(instance) || !filepath.IsAbs(path) {
		return "", "", fmt.Errorf("%q: want INSTANCE=unix:/PATH, as the plugin prints it when it runs with -debug", text)
	}
	return instance, address, nil
}

// attached is a process that is not ours: it was started by a developer, is not verified, and is never ended by us, neither by a
// call nor by force. The host lets go of it, and takes hold of it again after a pause if it went away.
type attached struct {
	*running
	letGo sync.Once
	over  chan struct{}
}

var _ process = (*attached)(nil)

// attach connects to the process at address in place of starting one. The manifest still says what it has to be.
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
		return nil, fmt.Errorf("make the state folder: %w", err)
	}
	dial := &launcher{host: h, config: &goplugin.ClientConfig{}}
	conn, err := dial.connect(&net.UnixAddr{Name: path, Net: "unix"}, h.observe(sup.instance.Name))
	if err != nil {
		return nil, fmt.Errorf("attach to %s: %w", address, err)
	}
	sup.log.Warn("plugin is attached: somebody has started it by hand, nothing of it is verified, and the host does not end it", "address", address)
	stdioOn, deafen := context.WithCancel(context.Background())
	return &attached{over: make(chan struct{}), running: &running{
		conn: conn, manifest: p.manifest, schema: p.schema, instance: sup.instance, stateDir: stateDir, host: h,
		output: newOutput(sup.log, sup.instance.Secrets), log: sup.log, timeouts: h.timeouts, stdioOn: stdioOn, deafen: deafen,
	}}, nil
}

// ownSocket refuses a socket that somebody else prepared: secrets are handed over through it.
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
func (a *attached) failure() error          { return errors.New("the host has let go of the attached process") }

// stopTimeout leaves time for calls in flight; the process itself goes on.
func (a *attached) stopTimeout() time.Duration { return a.running.stopTimeout() }

// shutdown only lets go.
func (a *attached) shutdown(context.Context) {}

// kill only lets go: the process sees the end of its connection.
func (a *attached) kill() {
	a.letGo.Do(func() {
		a.grant.end()
		a.deafen()
		_ = a.conn.Close()
		a.stdio.Wait()
		close(a.over)
	})
}
