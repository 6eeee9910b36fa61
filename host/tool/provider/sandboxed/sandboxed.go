// Package sandboxed runs servers of tools, such as MCP servers, in sandboxes.
//
// Start with Servers. The plugin of a provider, which is the server's client, stays outside and gets a Unix socket: each connection to the
// socket starts the server and carries its standard input and output until one side hangs up. Only the command of the configuration can be
// started over the socket.
//
// The package knows no protocol, and no plugin process.
package sandboxed

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/sandbox"
	"github.com/flynnhost/flynn/host/sandbox/executor"
	"github.com/flynnhost/flynn/host/sandbox/machine"
)

// Sandboxes provides the sandboxes of servers; a machine with interactive processes is a Spawner.
type Sandboxes interface {
	Sandbox(ctx context.Context, session message.WorkspaceKey, name string) (machine.Machine, error)
}

// Spawner is a machine with interactive processes.
type Spawner interface {
	Spawn(ctx context.Context, cmd machine.Command, terminal ...executor.Size) (*executor.Live, error)
}

var _ Spawner = (*sandbox.Session)(nil)

// Folders makes folders for sockets, which only this user can enter.
type Folders interface {
	SocketDir() (string, error)
}

// Command is how a server is started.
type Command struct {
	Command string
	Args    []string
	Env     map[string]string
}

// Servers are the servers in sandboxes, by their providers. The methods are safe for concurrent use.
type Servers struct {
	sandboxes Sandboxes
	folders   Folders
	log       *slog.Logger

	mu         sync.Mutex
	byProvider map[string]*server
}

// New returns Servers of no provider.
func New(sandboxes Sandboxes, folders Folders, log *slog.Logger) *Servers {
	return &Servers{sandboxes: sandboxes, folders: folders, log: log, byProvider: map[string]*server{}}
}

// Add makes the socket of a provider's server and serves it until Remove or Close. sandbox is the name of the sandbox.
func (s *Servers) Add(provider, sandbox string, c Command) (socket string, err error) {
	added := &server{of: s, provider: provider, sandbox: sandbox, command: c}
	if err := added.open(); err != nil {
		return "", err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.byProvider[provider] = added
	return added.socket(), nil
}

// Remove ends the server of a provider, if it has one, and returns when the server is gone.
func (s *Servers) Remove(provider string) {
	s.mu.Lock()
	removed := s.byProvider[provider]
	delete(s.byProvider, provider)
	s.mu.Unlock()
	if removed != nil {
		removed.close()
	}
}

// Close ends all servers.
func (s *Servers) Close() {
	s.mu.Lock()
	all := s.byProvider
	s.byProvider = map[string]*server{}
	s.mu.Unlock()
	for _, closed := range all {
		closed.close()
	}
}

// server is the server of one provider.
type server struct {
	of       *Servers
	provider string
	sandbox  string
	command  Command

	dir     string // holds the socket
	lis     net.Listener
	stop    context.CancelFunc
	serving sync.WaitGroup
}

func (s *server) socket() string { return filepath.Join(s.dir, "server") }

// open makes the socket and serves it until close.
func (s *server) open() (err error) {
	if s.dir, err = s.of.folders.SocketDir(); err != nil {
		return fmt.Errorf("make a folder for the socket of %s: %w", s.provider, err)
	}
	if s.lis, err = net.Listen("unix", s.socket()); err != nil {
		return errors.Join(fmt.Errorf("listen for %s: %w", s.provider, err), os.RemoveAll(s.dir))
	}
	ctx, stop := context.WithCancel(context.Background())
	s.stop = stop
	s.serving.Go(func() { s.serve(ctx) })
	return nil
}

// close ends the server and returns when it is gone.
func (s *server) close() {
	s.stop()
	_ = s.lis.Close()
	s.serving.Wait()
	_ = os.RemoveAll(s.dir)
}

// serve serves one connection at a time: when a plugin connects again, its last server has ended.
func (s *server) serve(ctx context.Context) {
	for {
		conn, err := s.lis.Accept()
		if err != nil {
			return // closed
		}
		if err := s.carry(ctx, conn); err != nil && ctx.Err() == nil {
			s.of.log.Warn("server in a sandbox", "provider", s.provider, "sandbox", cmp.Or(s.sandbox, "default"), "error", err)
		}
		_ = conn.Close()
	}
}

// endTime is how long a server may take to end after its input has ended.
const endTime = 3 * time.Second

// startTimeout bounds the making of a sandbox and the start of a server in it.
const startTimeout = 2 * time.Minute

// carry starts the server and copies in both directions until one side is gone.
func (s *server) carry(ctx context.Context, conn net.Conn) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	live, err := s.start(ctx)
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
	streams.Go(func() { s.logErrors(live.Stderr) })
	_, err = io.Copy(conn, live.Stdout)
	cancel()
	hangUp()
	err = errors.Join(err, live.Close())
	streams.Wait()
	return err
}

func (s *server) start(ctx context.Context) (*executor.Live, error) {
	making, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	m, err := s.of.sandboxes.Sandbox(making, message.WorkspaceKey("tools:"+s.provider+":server"), s.sandbox)
	if err != nil {
		return nil, err
	}
	spawner, ok := m.(Spawner)
	if !ok {
		return nil, fmt.Errorf("%s runs no process that can be talked to", m.Name())
	}
	return spawner.Spawn(ctx, machine.Command{Script: script(s.command), Env: s.command.Env})
}

// script starts a program with quoted arguments.
func script(c Command) string {
	words := []string{"exec"}
	for _, w := range append([]string{c.Command}, c.Args...) {
		words = append(words, "'"+strings.ReplaceAll(w, "'", `'\''`)+"'")
	}
	return strings.Join(words, " ")
}

// logErrors logs the standard error of the server, bounded in the length and the rate of lines.
func (s *server) logErrors(r io.Reader) {
	limit := rate.NewLimiter(20, 100)
	lines := bufio.NewReaderSize(r, 2<<10)
	for {
		line, more, err := lines.ReadLine()
		if text := strings.TrimSpace(strings.ToValidUTF8(string(line), "\uFFFD")); text != "" && limit.Allow() {
			s.of.log.Info("server in a sandbox says", "provider", s.provider, "text", text)
		}
		for more && err == nil { // the rest of a line that is too long
			_, more, err = lines.ReadLine()
		}
		if err != nil {
			return
		}
	}
}
