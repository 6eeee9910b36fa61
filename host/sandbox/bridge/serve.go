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

// Command is one that programs inside may call.
type Command struct {
	Name      string
	Rules     *Rules
	Workspace Workspace
	Stdin     bool // it gets what the program has on its standard input, read to its end first
	// Confine, if not nil, judges a call that the rules accept by what only the host can see, such as where the links of a path lead.
	// Its error is a refusal.
	Confine func(call Accepted) error
	// Secrets are what its output must not repeat.
	Secrets func() []string
	// Run has the call made and returns the exit code; out takes the output as it comes. It must end when ctx does.
	Run func(ctx context.Context, call Accepted, stdin []byte, out Output) (code int, err error)
}

// Output takes what a command writes. Nothing (nil) says that there was more, of either stream, which is left out.
type Output func(stderr bool, p []byte)

// Decision says what became of a call.
type Decision struct {
	ID      string
	Time    time.Time
	Name    string
	Argv    []string
	Allowed bool
	Reason  string // of a refusal, or of a failure
	// Up and Down are the bytes of its input and its output, and Ended when it was over.
	Up, Down int64
	Ended    time.Time
}

// Server answers the calls of one sandbox. It is safe for concurrent use.
type Server struct {
	commands map[string]Command
	decided  func(Decision)
	ended    func(Decision)
	slots    chan struct{}
}

const (
	// maxCalls bounds the commands that run at a time for one sandbox; further ones wait.
	maxCalls = 8
	// maxStdin bounds a command's input.
	maxStdin = 16 << 20
	// callTimeout bounds the wait for a complete call.
	callTimeout = 20 * time.Second
)

// Exit codes of what was not the command's own doing.
const (
	exitRefused = 1
	exitFailed  = 125
)

// NewServer returns a Server. decided is called for each decision, and ended again when an allowed call is over; neither
// may wait.
func NewServer(commands []Command, decided, ended func(Decision)) *Server {
	s := &Server{commands: make(map[string]Command), decided: decided, ended: ended, slots: make(chan struct{}, maxCalls)}
	for _, c := range commands {
		s.commands[c.Name] = c
	}
	return s
}

// Serve answers one connection and closes it. Its goroutines are gone when it returns.
func (s *Server) Serve(ctx context.Context, conn io.ReadWriteCloser) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	defer conn.Close()
	c := &call{server: s, conn: conn}
	body, err := c.read(cancel)
	if err != nil {
		return // nobody to tell
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

// check finds the command and judges the call.
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

// quoteName shows a name that may be anything.
func quoteName(name []byte) string {
	q := quote(string(name))
	if len(q) == len(name)+2 {
		return string(name)
	}
	return q
}

// call is one connection.
type call struct {
	server *Server
	conn   io.ReadWriteCloser

	mu       sync.Mutex // guards what is written, and down
	up, down int64
}

// read takes the call off the connection.
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

// run has the command run, for as long as the program waits for it.
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
	go func() { // a program that hangs up, or says more, wants no more
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

// input asks for the program's standard input, if the command gets it.
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

// send ignores errors: the program is gone, and its reader finds out.
func (c *call) send(k wire.Kind, p []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for first := true; first || len(p) > 0; first = false {
		n := min(len(p), wire.MaxData)
		_ = wire.Write(c.conn, k, p[:n])
		p = p[n:]
	}
}

// scrubbed passes output on without the command's secrets.
type scrubbed struct {
	call    *call
	secrets []string
	streams map[bool]*redact.Stream // by whether it is stderr
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
