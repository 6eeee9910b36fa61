package host

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/plugin"
	"github.com/flynnhost/flynn/host/sandbox"
	"github.com/flynnhost/flynn/host/sandbox/machine"
)

// enclosure is the server of a provider of tools, run in a sandbox. The plugin, which is the server's client, stays outside and gets a
// socket: each connection to it starts the server, and carries its standard input and output until one of them hangs up. What is
// run is the configuration's word; over the socket nothing else can be started.
type enclosure struct {
	name    string // of the provider
	server  config.Server
	sandbox string
	place   func(ctx context.Context, session, name string) (machine.Machine, error)
	folder  func() (string, error) // makes the one for the socket
	log     *slog.Logger

	dir     string // holds the socket, and is the user's alone
	lis     net.Listener
	stop    context.CancelFunc
	serving sync.WaitGroup
}

// spawner is a machine whose processes can be talked to; *sandbox.Session is one.
type spawner interface {
	Spawn(ctx context.Context, cmd machine.Command, terminal ...sandbox.Size) (*sandbox.Live, error)
}

// socket is the enclosure's address.
func (e *enclosure) socket() string { return filepath.Join(e.dir, "server") }

// open makes the socket and serves it until close.
func (e *enclosure) open() (err error) {
	if e.dir, err = e.folder(); err != nil {
		return fmt.Errorf("make a folder for the socket of %s: %w", e.name, err)
	}
	if e.lis, err = net.Listen("unix", e.socket()); err != nil {
		return errors.Join(fmt.Errorf("listen for %s: %w", e.name, err), os.RemoveAll(e.dir))
	}
	ctx, stop := context.WithCancel(context.Background())
	e.stop = stop
	e.serving.Go(func() { e.serve(ctx) })
	return nil
}

// close ends the server and returns when it is gone.
func (e *enclosure) close() {
	e.stop()
	_ = e.lis.Close()
	e.serving.Wait()
	_ = os.RemoveAll(e.dir)
}

// serve carries one connection at a time: a plugin that comes back finds its last server ended.
func (e *enclosure) serve(ctx context.Context) {
	for {
		conn, err := e.lis.Accept()
		if err != nil {
			return // closed
		}
		if err := e.carry(ctx, conn); err != nil && ctx.Err() == nil {
			e.log.Warn("server in a sandbox", "provider", e.name, "sandbox", cmp.Or(e.sandbox, "default"), "error", err)
		}
		_ = conn.Close()
	}
}

// endTime is how long a server has to end by itself when its input has ended.
const endTime = 3 * time.Second

// startTimeout bounds the making of a sandbox and the start of a server in it.
const startTimeout = 2 * time.Minute

// carry starts the server and passes on what both sides write, until either is gone.
func (e *enclosure) carry(ctx context.Context, conn net.Conn) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	live, err := e.start(ctx)
	if err != nil {
		return err
	}
	hangUp := func() { _ = conn.Close() }
	defer context.AfterFunc(ctx, hangUp)()
	var streams sync.WaitGroup
	streams.Go(func() {
		_, _ = io.Copy(live.Stdin, conn)
		_ = live.Stdin.Close()
		late := time.AfterFunc(endTime, cancel) // the plugin has hung up, so the server ends
		<-ctx.Done()
		late.Stop()
	})
	streams.Go(func() { e.hear(live.Stderr) })
	_, err = io.Copy(conn, live.Stdout)
	cancel()
	hangUp()
	err = errors.Join(err, live.Close())
	streams.Wait()
	return err
}

func (e *enclosure) start(ctx context.Context) (*sandbox.Live, error) {
	making, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	m, err := e.place(making, "tools:"+e.name+":server", e.sandbox)
	if err != nil {
		return nil, err
	}
	s, ok := m.(spawner)
	if !ok {
		return nil, fmt.Errorf("%s runs no process that can be talked to", m.Name())
	}
	return s.Spawn(ctx, machine.Command{Script: script(e.server), Env: e.server.Env})
}

// script starts a program with its arguments as they are.
func script(s config.Server) string {
	words := []string{"exec"}
	for _, w := range append([]string{s.Command}, s.Args...) {
		words = append(words, "'"+strings.ReplaceAll(w, "'", `'\''`)+"'")
	}
	return strings.Join(words, " ")
}

// hear puts what the server writes to its standard error into the log: lines up to a length, and not too many.
func (e *enclosure) hear(r io.Reader) {
	limit := rate.NewLimiter(20, 100)
	lines := bufio.NewReaderSize(r, 2<<10)
	for {
		line, more, err := lines.ReadLine()
		if text := strings.TrimSpace(strings.ToValidUTF8(string(line), "\uFFFD")); text != "" && limit.Allow() {
			e.log.Info("server in a sandbox says", "provider", e.name, "text", text)
		}
		for more && err == nil { // the rest of a line that is too long
			_, more, err = lines.ReadLine()
		}
		if err != nil {
			return
		}
	}
}

// encloseServer starts the server of a provider where it belongs in a sandbox, and tells its plugin the socket to it.
func (h *Host) encloseServer(name string, c config.ToolProvider, i *plugin.Instance) error {
	if !c.Sandbox.Enabled {
		return nil
	}
	server, err := c.Server()
	if err != nil {
		return err
	}
	e := &enclosure{name: name, server: server, sandbox: c.Sandbox.Name, place: h.machines.Sandbox, folder: h.plugins.SocketDir, log: h.log}
	if err := e.open(); err != nil {
		return err
	}
	h.enclosing.Lock()
	defer h.enclosing.Unlock()
	h.enclosed[name] = e
	i.Settings, i.Grant.Sockets = c.Reach(e.socket()), []string{e.socket()}
	return nil
}

// releaseServer ends the server of a provider that is gone.
func (h *Host) releaseServer(name string) {
	h.enclosing.Lock()
	e := h.enclosed[name]
	delete(h.enclosed, name)
	h.enclosing.Unlock()
	if e != nil {
		e.close()
	}
}

func (h *Host) releaseServers() {
	h.enclosing.Lock()
	names := slices.Sorted(maps.Keys(h.enclosed))
	h.enclosing.Unlock()
	for _, name := range names {
		h.releaseServer(name)
	}
}
