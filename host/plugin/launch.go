package plugin

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	goplugin "github.com/hashicorp/go-plugin"
	"github.com/hashicorp/go-plugin/runner"
	"golang.org/x/mod/semver"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/flynnhost/flynn/host/plugin/jail"
	"github.com/flynnhost/flynn/sdk/proto/handshake"
)

// launchSpec says which process to start.
type launchSpec struct {
	version string // installed version; "" for the one that the instance runs
	// beside is true if another process of the instance is running, whose status stays.
	beside bool
	// bare starts it for an inspection only: it gets no state folder.
	bare bool
}

// launch verifies the plugin of sup and starts a process of it, up to and including the handshake.
func (h *Host) launch(ctx context.Context, sup *supervisor, o launchSpec) (process, error) {
	if err := h.provide(ctx, sup.instance.Plugin); err != nil {
		return nil, permanent{err}
	}
	p, err := h.load(sup.instance.Plugin, cmp.Or(o.version, sup.pinned()))
	if err == nil {
		defer p.close()
		err = h.fits(p, sup.instance)
	}
	if err != nil {
		return nil, permanent{err}
	}
	if l := p.manifest.lease(sup.instance); l != nil && l.Sending() <= 0 && !o.bare {
		return nil, elsewhere{l}
	}
	if p.dev {
		sup.log.Warn("plugin runs from a development folder: it is not verified", "dir", p.dir)
	}
	if !o.beside {
		sup.update(func(s *Status) { s.Version, s.Dev = p.manifest.Version, p.dev })
		sup.set(Verified, "")
		sup.set(Starting, "")
	}
	if address, ok := h.config.Attach[sup.instance.Name]; ok && !o.bare {
		return h.attach(sup, p, o, address)
	}
	return h.startProcess(ctx, sup, p, o)
}

// provide is Store.Provide for the plugins that this host starts. It looks once for each: what another release of Flynn that is installed
// while this one runs comes with is for the next start.
func (h *Host) provide(ctx context.Context, name string) error {
	if _, ok := h.config.DevPaths[name]; ok {
		return nil
	}
	h.providing.Lock()
	defer h.providing.Unlock()
	if h.provided[name] {
		return nil
	}
	if err := h.store.Provide(ctx, h.log, name); err != nil {
		return err
	}
	h.provided[name] = true
	h.forget(name)
	return nil
}

// load opens a plugin: its development folder if there is one, else an installed and locked version, by default the one that its instances
// run.
func (h *Host) load(name, version string) (*pack, error) {
	dir, ok := h.config.DevPaths[name]
	if !ok {
		if r, err := h.store.Record(name); err == nil && r.Disabled {
			return nil, fmt.Errorf("%w: run flynn plugin enable %s", errDisabled, name)
		}
		return h.store.loadVersion(name, cmp.Or(version, h.versionOf(name)))
	}
	p, err := loadDev(dir, h.config.Kinds)
	if err == nil && p.manifest.Name != name {
		p.close()
		err = fmt.Errorf("development folder %s holds the plugin %s, not %s", dir, p.manifest.Name, name)
	}
	return p, err
}

// fits checks that the plugin can run this instance on this host, including its settings.
func (h *Host) fits(p *pack, i Instance) error {
	m := p.manifest
	if !slices.Contains(m.Kinds, i.Kind) {
		return fmt.Errorf("plugin %s is of kind %v, not %s", m.Name, m.Kinds, i.Kind)
	}
	if v := h.config.Version; v != "" && m.Host.Min != "" && semver.Compare("v"+v, "v"+m.Host.Min) < 0 {
		return fmt.Errorf("plugin %s %s needs Flynn %s or newer, this is %s", m.Name, m.Version, m.Host.Min, v)
	}
	for name := range i.Secrets {
		if !slices.Contains(m.Config.Secrets, name) {
			return fmt.Errorf("plugin %s has no secret %q, only %q", m.Name, name, m.Config.Secrets)
		}
	}
	return h.agrees(p, i)
}

// stateDir creates the folder that survives restarts, for plugins that ask for one.
func (h *Host) stateDir(m Manifest, instance string) (string, error) {
	if !m.Permissions.State {
		return "", nil
	}
	dir, err := filepath.Abs(filepath.Join(h.config.StateDir, instance))
	if err != nil {
		return "", err
	}
	return dir, os.MkdirAll(dir, 0o700)
}

// startProcess starts the process and connects to it. After an error nothing is left of it.
func (h *Host) startProcess(ctx context.Context, sup *supervisor, p *pack, o launchSpec) (process, error) {
	var stateDir string
	var err error
	if !o.bare {
		stateDir, err = h.stateDir(p.manifest, sup.instance.Name)
	}
	if err != nil {
		return nil, fmt.Errorf("create the state folder: %w", err)
	}
	out := newOutput(sup.log, sup.instance.Secrets)
	run := &launcher{
		host: h, pack: p, output: out, log: libraryLog(sup.log), stateDir: stateDir, instance: sup.instance,
	}
	defer context.AfterFunc(ctx, run.abort)()
	addr, err := run.start()
	run.hear()
	if !o.beside {
		sup.contained(run.measures)
	}
	if err != nil {
		run.remove()
		return nil, run.explain(err)
	}
	conn, err := run.connect(addr, h.observe(sup.instance.Name))
	if err != nil {
		run.remove()
		return nil, fmt.Errorf("connect to the plugin: %w", err)
	}
	release, err := p.release()
	if err != nil {
		run.remove()
		return nil, err
	}
	stdioOn, deafen := context.WithCancel(context.Background())
	return &running{
		runner: run.runner, conn: conn, manifest: p.manifest, schema: p.schema, release: release, instance: sup.instance, stateDir: stateDir, measures: run.measures,
		host: h, output: out, remove: run.remove, group: run.group, log: sup.log, timeouts: h.timeouts,
		stdioOn: stdioOn, deafen: deafen,
	}, nil
}

// launcher is one start through go-plugin.
type launcher struct {
	host   *Host
	pack   *pack
	output *output
	log    hclog.Logger
	config *goplugin.ClientConfig

	socketDir string
	stateDir  string
	instance  Instance

	group           *jail.Group    // nil without one
	report, reportW *os.File       // of the launcher process, see enclose
	measures        []jail.Measure // that it reported
	refused         string         // why it did not execute the plugin

	mu      sync.Mutex // guards the following, which abort may need at any time
	runner  *runnerProcess
	aborted bool
}

// start runs the process and returns its address. go-plugin's client is not used beyond this: see the package comment.
func (l *launcher) start() (net.Addr, error) {
	l.config = &goplugin.ClientConfig{
		HandshakeConfig: goplugin.HandshakeConfig{
			ProtocolVersion:  handshake.Protocol,
			MagicCookieKey:   handshake.CookieKey,
			MagicCookieValue: handshake.CookieValue,
		},
		Plugins:          goplugin.PluginSet{},
		RunnerFunc:       l.newRunner,
		AllowedProtocols: []goplugin.Protocol{goplugin.ProtocolGRPC},
		AutoMTLS:         l.pack.manifest.Run.TLS == tlsAuto,
		SkipHostEnv:      true,
		StartTimeout:     time.Duration(l.pack.manifest.Run.StartTimeout),
		UnixSocketConfig: &goplugin.UnixSocketConfig{TempDir: l.host.config.RunDir},
		Logger:           l.log,
	}
	return goplugin.NewClient(l.config).Start()
}

// newRunner builds the process. go-plugin's command has only the variables of the handshake.
func (l *launcher) newRunner(_ hclog.Logger, spec *exec.Cmd, socketDir string) (runner.Runner, error) {
	l.socketDir = socketDir
	cmd, err := l.command()
	if err != nil {
		return nil, err
	}
	cmd.Env = append(environment(l.pack.manifest, l.host.config.Kinds.relays(l.pack.manifest), socketDir, l.host.lookupEnv), spec.Env...)
	if err := l.enclose(cmd, len(cmd.ExtraFiles) > 0); err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.aborted {
		return nil, context.Canceled
	}
	l.runner = newRunner(cmd, l.output, socketDir, l.config.AutoMTLS)
	return l.runner, nil
}

func (l *launcher) command() (*exec.Cmd, error) {
	c, err := l.pack.manifest.command()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(c[0], c[1:]...)
	cmd.Dir = l.pack.dir
	if l.pack.program == nil {
		return cmd, cmd.Err
	}
	cmd = exec.Command(filepath.Join(l.pack.dir, filepath.FromSlash(c[0])), c[1:]...)
	cmd.Dir = l.pack.dir
	if !isScript(l.pack.program) {
		runOpen(cmd, l.pack.program)
	}
	return cmd, nil
}

// isScript reports whether the kernel would start an interpreter with the file's name, which must then be the real one.
func isScript(f io.ReaderAt) bool {
	var head [2]byte
	_, err := f.ReadAt(head[:], 0)
	return err == nil && string(head[:]) == "#!"
}

// explain turns the error of a failed start into one that helps an operator.
func (l *launcher) explain(err error) error {
	if refused := l.refusal(); refused != nil {
		return refused
	}
	if l.runner == nil {
		return fmt.Errorf("start the plugin: %w", err)
	}
	if noise := l.runner.spoiled(); noise != nil {
		err = noise
	} else if exit := l.runner.ended(); exit != nil && exit.Error() != "signal: killed" {
		err = fmt.Errorf("it ended before its handshake: %w", exit) // instead of the library's error
	}
	if lines := l.output.lines(); lines != "" {
		return fmt.Errorf("start the plugin: %w; it wrote: %s", err, lines)
	}
	return fmt.Errorf("start the plugin: %w", err)
}

// connect opens our own connection to the process, with our limits.
func (l *launcher) connect(addr net.Addr, observe grpc.UnaryClientInterceptor) (*grpc.ClientConn, error) {
	creds := insecure.NewCredentials()
	if l.config.AutoMTLS {
		creds = credentials.NewTLS(l.config.TLSConfig)
	}
	return grpc.NewClient("passthrough:plugin",
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, addr.Network(), addr.String())
		}),
		grpc.WithTransportCredentials(creds),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: backoff.DefaultConfig, MinConnectTimeout: connectTimeout}),
		grpc.WithDefaultCallOptions(
			grpc.MaxCallRecvMsgSize(handshake.MaxFrame), grpc.MaxCallSendMsgSize(handshake.MaxFrame)),
		grpc.WithMaxHeaderListSize(16<<10),
		grpc.WithUnaryInterceptor(observe),
		grpc.WithDisableServiceConfig(),
		grpc.WithIdleTimeout(0),
	)
}

const connectTimeout = 3 * time.Second

// abort ends a start at any point.
func (l *launcher) abort() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.aborted = true
	if l.runner != nil {
		l.runner.kill()
	}
}

// remove kills the process, waits for it and removes its sockets. It does not wait for ever for a process that the kernel holds.
func (l *launcher) remove() {
	if l.runner != nil && l.runner.pid() != 0 {
		l.runner.kill()
		select {
		case <-l.runner.done:
		case <-time.After(l.host.timeouts.reap):
			l.log.Error("plugin process cannot be killed", "pid", l.runner.pid())
		}
	}
	if l.group != nil {
		l.group.Remove()
	}
	if l.socketDir != "" {
		_ = os.RemoveAll(l.socketDir)
	}
}
