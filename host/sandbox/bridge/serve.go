package bridge

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/flynnhost/flynn/host/internal/redact"
	"github.com/flynnhost/flynn/host/sandbox/bridge/wire"
)

// Command is a command that programs inside may call.
type Command struct {
	Name      string
	Rules     *Rules
	Workspace Workspace
	Stdin     bool // it gets the program's standard input, which is read to its end first
	// Confine, if not nil, checks an accepted call for what only the host can see, such as the targets of links. Its error refuses the
	// call.
	Confine func(call Accepted) error
	// Secrets returns texts that are removed from the output.
	Secrets func() []string
	// Run executes the call and returns the exit code; out receives the output as it arrives. Run must return when ctx is done.
	Run func(ctx context.Context, call Accepted, stdin []byte, out Output) (code int, err error)
}

// Output receives what a command writes. A nil p means that further output, of either stream, was left out.
type Output func(stderr bool, p []byte)

// Decision records how a call was decided, and how it ended.
type Decision struct {
	ID      string
	Time    time.Time
	Name    string
	Argv    []string
	Allowed bool
	Reason  string // of a refusal or a failure
	// Up and Down count the bytes of its input and its output; Ended is when it ended.
	Up, Down int64
	Ended    time.Time
}

// Server answers the calls from one sandbox. It is safe for concurrent use.
type Server struct {
	commands map[string]Command
	decided  func(Decision)
	ended    func(Decision)
	slots    chan struct{}
}

const (
	// maxCalls bounds the commands that run at the same time for one sandbox; further ones wait.
	maxCalls = 8
	// maxStdin bounds a command's input.
	maxStdin = 16 << 20
	// callTimeout bounds the wait for a complete call.
	callTimeout = 20 * time.Second
)

// Exit codes that do not come from the command itself.
const (
	exitRefused = 1
	exitFailed  = 125
)

// NewServer returns a Server. It calls decided for each decision and ended when an allowed call is over; neither may block.
func NewServer(commands []Command, decided, ended func(Decision)) *Server {
	s := &Server{commands: make(map[string]Command), decided: decided, ended: ended, slots: make(chan struct{}, maxCalls)}
	for _, c := range commands {
		s.commands[c.Name] = c
	}
	return s
}

// Serve answers one connection and closes it. No goroutine of it remains when it returns.
func (s *Server) Serve(ctx context.Context, conn io.ReadWriteCloser) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	defer conn.Close()
	c := &call{server: s, conn: conn}
	body, err := c.read(cancel)
	if err != nil {
		return // the peer is gone
	}
	command, accepted, err := s.check(body)
	d := Decision{ID: rand.Text(), Time: time.Now(), Name: quoteName(body.Name), Argv: texts(body.Argv), Allowed: err == nil}
	if err != nil {
		d.Reason = err.Error()
		s.decided(d)
		c.say(fmt.Sprintf("flynn: %s: refused for security: %v\n", d.Name, err))
		c.exit(exitRefused)
		return
	}
	s.decided(d)
	if err := c.run(ctx, cancel, command, accepted); err != nil {
		d.Reason = err.Error()
	}
	d.Up, d.Down, d.Ended = c.up, c.down, time.Now()
	s.ended(d)
}

// check looks the command up and checks the call.
func (s *Server) check(body wire.CallBody) (Command, Accepted, error) {
	command, known := s.commands[string(body.Name)]
	if !known {
		return Command{}, Accepted{}, Refusal{Why: "there is no such command"}
	}
	accepted, err := command.Rules.Check(texts(body.Argv), string(body.Dir), command.Workspace)
	if err == nil && command.Confine != nil {
		err = command.Confine(accepted)
	}
	return command, accepted, err
}

func texts(words [][]byte) []string {
	out := make([]string, len(words))
	for i, w := range words {
		out[i] = string(w)
	}
	return out
}

// quoteName quotes an arbitrary name.
func quoteName(name []byte) string {
	q := quote(string(name))
	if len(q) == len(name)+2 {
		return string(name)
	}
	return q
}

// call is the state of one connection.
type call struct {
	server *Server
	conn   io.ReadWriteCloser

	mu       sync.Mutex // guards writes to the connection, and down
	up, down int64
}

// read reads the call.
func (c *call) read(cancel context.CancelFunc) (wire.CallBody, error) {
	watch := time.AfterFunc(callTimeout, cancel)
	defer watch.Stop()
	k, p, err := wire.Read(c.conn)
	if err == nil && k != wire.Call {
		err = wire.ErrMalformed
	}
	if err != nil {
		return wire.CallBody{}, err
	}
	return wire.ParseCall(p)
}

// run runs the command until it ends or the program hangs up.
func (c *call) run(ctx context.Context, cancel context.CancelFunc, command Command, accepted Accepted) error {
	select {
	case c.server.slots <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-c.server.slots }()
	stdin, err := c.input(command)
	if err != nil {
		c.say(fmt.Sprintf("flynn: %s: %v\n", command.Name, err))
		c.exit(exitFailed)
		return err
	}
	watching := make(chan struct{})
	go func() { // a program that hangs up, or sends more, has abandoned the call
		defer close(watching)
		_, _ = c.conn.Read(make([]byte, 1))
		cancel()
	}()
	defer func() { cancel(); c.conn.Close(); <-watching }()
	out := newScrubbed(c, command)
	code, err := command.Run(ctx, accepted, stdin, out.write)
	if err != nil {
		out.cut()
	}
	out.rest()
	if err != nil {
		c.say(fmt.Sprintf("flynn: %s: %s\n", command.Name, out.clean(err.Error())))
		code = cmp.Or(code, exitFailed)
	}
	c.exit(code)
	return err
}

// input reads the program's standard input if the command takes it.
func (c *call) input(command Command) ([]byte, error) {
	if !command.Stdin {
		return nil, nil
	}
	if err := wire.Write(c.conn, wire.Input, nil); err != nil {
		return nil, err
	}
	var all bytes.Buffer
	for {
		k, p, err := wire.Read(c.conn)
		switch {
		case err != nil:
			return nil, err
		case k != wire.Input:
			return nil, wire.ErrMalformed
		case len(p) == 0:
			c.up = int64(all.Len())
			return all.Bytes(), nil
		case all.Len()+len(p) > maxStdin:
			return nil, errors.New("more than 16 MiB of input")
		}
		all.Write(p)
	}
}

func (c *call) say(text string) { c.send(wire.Errors, []byte(text)) }

func (c *call) exit(code int) { c.send(wire.Exit, []byte{byte(code)}) }

// send ignores errors: when the program is gone, the goroutine that reads from it notices.
func (c *call) send(k wire.Kind, p []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for first := true; first || len(p) > 0; first = false {
		n := min(len(p), wire.MaxData)
		_ = wire.Write(c.conn, k, p[:n])
		p = p[n:]
	}
}

// scrubbed passes output on with the command's secrets removed.
type scrubbed struct {
	call    *call
	secrets []string
	streams map[bool]*redact.Stream // keyed by whether it is stderr
}

func newScrubbed(c *call, command Command) *scrubbed {
	s := &scrubbed{call: c}
	if command.Secrets != nil {
		s.secrets = command.Secrets()
	}
	s.streams = map[bool]*redact.Stream{false: redact.NewStream(s.secrets...), true: redact.NewStream(s.secrets...)}
	return s
}

func (s *scrubbed) clean(text string) string { return redact.NewStream(s.secrets...).String(text) }

func (s *scrubbed) write(stderr bool, p []byte) {
	if p == nil {
		s.cut()
		return
	}
	s.call.down += int64(len(p))
	s.pass(stderr, s.streams[stderr].Next(p))
}

func (s *scrubbed) cut() {
	s.pass(false, s.streams[false].Cut())
	s.pass(true, s.streams[true].Cut())
}

func (s *scrubbed) rest() {
	s.pass(false, s.streams[false].Rest())
	s.pass(true, s.streams[true].Rest())
}

func (s *scrubbed) pass(stderr bool, p []byte) {
	if len(p) == 0 {
		return
	}
	k := wire.Output
	if stderr {
		k = wire.Errors
	}
	s.call.send(k, p)
}
