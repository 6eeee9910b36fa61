package plugin

import (
	"cmp"
	"context"
	"log/slog"
	"os"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/flynnhost/flynn/host/plugin/service"
	"github.com/flynnhost/flynn/sdk/proto/pluginv1"
)

// ProbeConfig names the plugin to start: the one in Dir or, without it, the installed plugin Name in Store.
type ProbeConfig struct {
	Dir   string
	Store string
	Name  string
	// StateDir is the folder for the plugin's state folder; by default a temporary one.
	StateDir string
	// Bare leaves the variables of passedOn out, so that only those remain that the host sets itself.
	Bare bool
	Log  *slog.Logger
	// Services are the host services for the process; nil for none. They are served until Close.
	Services *service.Server
}

// Probe is one process of a plugin, started like that of any instance, including verification, handshake and encryption, but not
// described, configured or supervised. The caller makes the calls itself. Close ends it.
type Probe struct {
	process  *running
	stateDir string
	cleanUp  []func()
	closing  sync.Once
}

// StartProbe starts a process. ctx bounds only the start.
func StartProbe(ctx context.Context, c ProbeConfig) (*Probe, error) {
	t := &Probe{}
	p, err := t.start(ctx, c)
	if err != nil {
		t.Close()
		return nil, err
	}
	t.process = p.(*running)
	t.process.stdio.Go(t.process.drainStdio)
	return t, nil
}

func (t *Probe) start(ctx context.Context, c ProbeConfig) (process, error) {
	dir, err := shortTemp()
	if err != nil {
		return nil, err
	}
	t.cleanUp = append(t.cleanUp, func() { _ = os.RemoveAll(dir) })
	name, dev := c.Name, map[string]string{}
	if c.Dir != "" {
		m, err := ReadManifest(c.Dir)
		if err != nil {
			return nil, err
		}
		name, dev[m.Name] = m.Name, c.Dir
	}
	h, err := New(Config{
		Dir: cmp.Or(c.Store, dir+"/p"), StateDir: cmp.Or(c.StateDir, dir+"/s"), RunDir: dir + "/r", DevPaths: dev, Log: c.Log, Services: c.Services,
	})
	if err != nil {
		return nil, err
	}
	if c.Bare {
		h.lookupEnv = func(string) (string, bool) { return "", false }
	}
	release, err := claimRunDir(h.config.RunDir, h.log)
	if err != nil {
		return nil, err
	}
	t.cleanUp = append(t.cleanUp, release)
	end, err := h.offerServices()
	if err != nil {
		return nil, err
	}
	t.cleanUp = append(t.cleanUp, end)
	if err := h.provide(ctx, name); err != nil {
		return nil, err
	}
	p, err := h.load(name, "")
	if err != nil {
		return nil, err
	}
	defer p.close()
	t.stateDir, err = h.stateDir(p.manifest, "probe")
	if err != nil {
		return nil, err
	}
	instance := Instance{Name: "probe", Plugin: name, Kind: p.manifest.Kinds[0]}
	return h.startProcess(ctx, newSupervisor(h, instance, nil, &recent{}), p, launchSpec{})
}

// shortTemp creates a temporary folder with a path that is short enough for sockets, in /tmp if necessary.
func shortTemp() (string, error) {
	dir, err := os.MkdirTemp("", "ft")
	if err != nil || len(dir)+len("/r")+socketTail <= maxSocket {
		return dir, err
	}
	if err := os.Remove(dir); err != nil {
		return "", err
	}
	return os.MkdirTemp("/tmp", "ft")
}

// Conn is the connection to the process, with the host's bounds on both directions.
func (t *Probe) Conn() grpc.ClientConnInterface { return t.process.conn }

// Manifest is the manifest of the plugin.
func (t *Probe) Manifest() Manifest { return t.process.manifest }

// StateDir is the state folder to pass to Configure; empty unless the manifest asks for one.
func (t *Probe) StateDir() string { return t.stateDir }

// Admit lets the process call the services that its manifest asks for. The caller passes the results to Configure.
func (t *Probe) Admit() (endpoint, token string) { return t.process.admit() }

// Disagreements describes the differences between d and plugin.toml.
func (t *Probe) Disagreements(d *pluginv1.DescribeResponse) []string {
	return t.process.disagreements(d)
}

// HangUp closes the plugin's standard input, as if the host had died.
func (t *Probe) HangUp() { t.process.runner.hangUp() }

// Kill kills the process and returns when it is gone. Its sockets stay until Close.
func (t *Probe) Kill() {
	t.process.runner.kill()
	<-t.process.exited()
}

// Exited waits for the process to end by itself and reports whether it did within the time.
func (t *Probe) Exited(within time.Duration) bool {
	late := time.NewTimer(within)
	defer late.Stop()
	select {
	case <-t.process.exited():
		return true
	case <-late.C:
		return false
	}
}

// Ended is an error that says how the process ended and what it wrote; nil while it runs.
func (t *Probe) Ended() error {
	select {
	case <-t.process.exited():
		return t.process.failure()
	default:
		return nil
	}
}

// Pid is the id of the process.
func (t *Probe) Pid() int { return t.process.pid() }

// Close kills the process if it still runs, and removes its files.
func (t *Probe) Close() {
	t.closing.Do(func() {
		if t.process != nil {
			t.process.kill()
		}
		for i := len(t.cleanUp) - 1; i >= 0; i-- {
			t.cleanUp[i]()
		}
	})
}

// ReadManifest reads the manifest of the plugin in a folder and checks that the files that it names exist.
func ReadManifest(dir string) (Manifest, error) {
	p, err := loadDev(dir, AllKinds())
	if err != nil {
		return Manifest{}, err
	}
	p.close()
	return p.manifest, nil
}
