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

// ProbeConfig says what is tried: the plugin in Dir or, without it, the installed plugin called Name in Store.
type ProbeConfig struct {
	Dir   string
	Store string
	Name  string
	// StateDir is where the plugin's state folder is made; a temporary one.
	StateDir string
	// Bare leaves out the variables that every plugin may see: what remains is what the host itself sets.
	Bare bool
	Log  *slog.Logger
	// Services are what the host offers to the process; nil for nothing. They are served until Close.
	Services *service.Server
}

// Probe is one process of a plugin, started like that of any instance, verification, handshake and encryption included, but neither
// described, configured nor supervised. The caller makes the calls itself. Close ends it.
type Probe struct {
	process  *running
	stateDir string
	cleanUp  []func()
	closing  sync.Once
}

// StartProbe starts a process. ctx bounds the start alone.
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

// shortTemp makes a temporary folder in which a socket's path is short enough, in /tmp if need be.
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

// Manifest is what plugin.toml says.
func (t *Probe) Manifest() Manifest { return t.process.manifest }

// StateDir is the folder to hand over with Configure; empty unless the manifest asks for one.
func (t *Probe) StateDir() string { return t.stateDir }

// Admit lets the process call what its manifest asks for; what it returns is to be handed over with Configure.
func (t *Probe) Admit() (endpoint, token string) { return t.process.admit() }

// Disagreements says in which respects d is not what plugin.toml says.
func (t *Probe) Disagreements(d *pluginv1.DescribeResponse) []string {
	return t.process.disagreements(d)
}

// HangUp closes the plugin's standard input, as the death of the host would.
func (t *Probe) HangUp() { t.process.runner.hangUp() }

// Kill ends the process by force and returns when it is gone. Its sockets stay until Close.
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

// Ended says how the process ended and what it wrote; nil while it runs.
func (t *Probe) Ended() error {
	select {
	case <-t.process.exited():
		return t.process.failure()
	default:
		return nil
	}
}

// Pid is the number of the process.
func (t *Probe) Pid() int { return t.process.pid() }

// Close ends the process, by force if it still runs, and removes what belonged to it.
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

// ReadManifest reads the manifest of the plugin in a folder and checks that what it names is there.
func ReadManifest(dir string) (Manifest, error) {
	p, err := loadDev(dir, AllKinds())
	if err != nil {
		return Manifest{}, err
	}
	p.close()
	return p.manifest, nil
}
