package gateway

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/coder/websocket"
	"golang.org/x/sync/errgroup"
)

// TerminalPath is the WebSocket of a terminal in a live sandbox. The first frame of the client is a text: a TerminalFrame of type hello with the
// token. The keys of the person follow in binary frames, a change of the size in text frames of type resize. The server sends a text frame of type
// ready, then the output in binary frames, and ended or error last.
const TerminalPath = "/api/v1/sandboxes/{id}/terminal"

// TerminalProtocol is the subprotocol of terminals.
const TerminalProtocol = "flynn.terminal.v1"

const (
	maxTerminals   = 16
	maxTyped       = 64 << 10 // of one frame, in bytes
	terminalUnused = 30 * time.Minute
	terminalStart  = time.Minute // a paused container may have to wake
	// terminalPatience is how long a client may take for a piece of output or a ping: a page draws, and does not read meanwhile.
	terminalPatience = time.Minute
	outputChunk      = 32 << 10
)

// terminal serves one terminal until its shell ends, the client goes or is silent for too long, or the server ends.
func (s *Server) terminal(w http.ResponseWriter, r *http.Request) {
	if s.backend.Sandboxes == nil {
		http.NotFound(w, r)
		return
	}
	s.sockets.Add(1)
	defer s.sockets.Done()
	conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{
		Subprotocols: []string{TerminalProtocol},
		// The guard has checked the origin already, more strictly.
		InsecureSkipVerify: true,
	})
	if err != nil {
		s.log.Debug("gateway could not open a terminal", "error", err)
		return
	}
	defer conn.CloseNow()
	s.metrics.Sockets.Inc()
	defer s.metrics.Sockets.Dec()
	if conn.Subprotocol() != TerminalProtocol {
		_ = conn.Close(websocket.StatusPolicyViolation, "ask for the subprotocol "+TerminalProtocol)
		return
	}
	conn.SetReadLimit(maxTyped)
	hello, by, ok := s.greetTerminal(r.Context(), conn)
	if !ok {
		return
	}
	if s.terminals.Add(1) > maxTerminals {
		s.terminals.Add(-1) // now, as a refusal takes as long as the client likes
		refuseTerminal(r.Context(), conn, CodeLimited, "too many terminals are open")
		return
	}
	defer s.terminals.Add(-1)
	term, err := s.openTerminal(r.Context(), r.PathValue("id"), TerminalSize{hello.Rows, hello.Cols}, by)
	if err != nil {
		refuseTerminal(r.Context(), conn, errorCode(err), err.Error())
		return
	}
	defer func() {
		if err := term.Close(); err != nil {
			s.log.Warn("a terminal did not end as it should", "error", err)
		}
	}()
	err = converse(r.Context(), conn, term, func() bool {
		by, ok := s.caller(hello.Token)
		return ok && by.Owner()
	})
	s.log.Debug("gateway terminal ended", "error", err)
}

// greetTerminal reads the hello and checks its token, and that it is an owner's.
func (s *Server) greetTerminal(ctx context.Context, conn *websocket.Conn) (f TerminalFrame, by Caller, ok bool) {
	ctx, cancel := context.WithTimeout(ctx, helloTimeout)
	defer cancel()
	defer s.strangers.enter(cancel)()
	kind, data, err := conn.Read(ctx)
	if err != nil {
		return f, by, false
	}
	f, err = decodeTerminal(data)
	switch {
	case kind != websocket.MessageText:
		err = errors.New("the first frame must be hello")
	case err == nil && f.Type != TypeHello:
		err = errors.New("the first frame must be hello")
	case err == nil && len(f.Token) > maxToken:
		err = errors.New("token is too long")
	}
	if err != nil {
		refuseTerminal(ctx, conn, CodeBadRequest, err.Error())
		return f, by, false
	}
	switch by, status := s.check(f.Token, "terminal"); {
	case status == 0 && by.Owner():
		return f, by, true
	case status == 0:
		refuseTerminal(ctx, conn, CodeForbidden, "terminals are for owners")
	case status == http.StatusTooManyRequests:
		refuseTerminal(ctx, conn, CodeLimited, "too many wrong tokens; wait a second")
	default:
		refuseTerminal(ctx, conn, CodeUnauthorized, "the token is wrong; open the address that flynn open prints")
	}
	return f, by, false
}

// openTerminal bounds the time that the shell takes to start, and not that for which it runs.
func (s *Server) openTerminal(ctx context.Context, id string, size TerminalSize, by Caller) (Terminal, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	late := time.AfterFunc(terminalStart, func() { cancel(errors.New("the shell did not start in time")) })
	term, err := s.backend.Sandboxes.OpenTerminal(ctx, id, size, string(by.Sender))
	if err != nil {
		cancel(nil)
		return nil, err
	}
	if !late.Stop() {
		return nil, errors.Join(context.Cause(ctx), term.Close())
	}
	return closedOnce{term, sync.OnceValue(func() error {
		defer cancel(nil)
		return term.Close()
	})}, nil
}

// closedOnce is a terminal that may be closed several times.
type closedOnce struct {
	Terminal
	close func() error
}

// Close implements Terminal.
func (t closedOnce) Close() error { return t.close() }

// converse carries bytes both ways until one side ends, or the person may not any more.
func converse(ctx context.Context, conn *websocket.Conn, term Terminal, may func() bool) error {
	if err := writeTerminal(ctx, conn, TerminalFrame{Type: typeReady}); err != nil {
		return err
	}
	g, inner := errgroup.WithContext(ctx)
	// As in session.run: a read whose context ends would drop the connection without a close frame.
	reading, hangUp := context.WithCancel(context.WithoutCancel(ctx))
	defer hangUp()
	unused := time.AfterFunc(terminalUnused, func() {
		_ = conn.Close(websocket.StatusPolicyViolation, "nothing was typed for too long")
	})
	defer unused.Stop()
	g.Go(func() error { return show(inner, conn, term) })
	g.Go(func() error { return typed(reading, conn, term, func() { unused.Reset(terminalUnused) }) })
	g.Go(func() error { return pingTerminal(inner, conn) })
	g.Go(func() error { return whileAllowed(inner, conn, may) })
	g.Go(func() error {
		<-inner.Done()
		if ctx.Err() != nil {
			cut := time.AfterFunc(goodbyeTimeout, hangUp)
			defer cut.Stop()
			_ = conn.Close(websocket.StatusGoingAway, "flynn is shutting down")
		}
		_ = conn.CloseNow()
		return term.Close() // which ends a read of its output
	})
	return g.Wait()
}

// show sends the output, and how the shell ended. The shell waits while the client does not read.
func show(ctx context.Context, conn *websocket.Conn, term Terminal) error {
	buffer := make([]byte, outputChunk)
	for {
		n, err := term.Read(buffer)
		if n > 0 {
			if err := writeOutput(ctx, conn, buffer[:n]); err != nil {
				return err
			}
		}
		if err != nil {
			break
		}
	}
	if ctx.Err() == nil && writeTerminal(ctx, conn, TerminalFrame{Type: typeEnded, Message: term.Ended()}) == nil {
		_ = conn.Close(websocket.StatusNormalClosure, typeEnded)
	}
	return errDone
}

func writeOutput(ctx context.Context, conn *websocket.Conn, p []byte) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), terminalPatience)
	defer cancel()
	return conn.Write(ctx, websocket.MessageBinary, p)
}

// typed passes on what the client types.
func typed(ctx context.Context, conn *websocket.Conn, term Terminal, alive func()) error {
	for {
		kind, data, err := conn.Read(ctx)
		if err != nil {
			return err
		}
		alive()
		if kind == websocket.MessageBinary {
			if _, err := term.Write(data); err != nil && !errors.Is(err, io.ErrClosedPipe) {
				return err
			}
			continue
		}
		f, err := decodeTerminal(data)
		if err == nil && f.Type != typeResize {
			err = errors.New("hello comes once")
		}
		if err != nil {
			refuseTerminal(ctx, conn, CodeBadRequest, err.Error())
			return err
		}
		_ = term.Resize(TerminalSize{f.Rows, f.Cols}) // fails only if the shell has ended
	}
}

// mayInterval is how soon a terminal ends whose person may not have one any more.
const mayInterval = 2 * time.Second

func whileAllowed(ctx context.Context, conn *websocket.Conn, may func() bool) error {
	tick := time.NewTicker(mayInterval)
	defer tick.Stop()
	for may() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	refuseTerminal(ctx, conn, CodeUnauthorized, "you are signed out")
	return errDone
}

func pingTerminal(ctx context.Context, conn *websocket.Conn) error {
	tick := time.NewTicker(PingInterval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		call, cancel := context.WithTimeout(ctx, terminalPatience)
		err := conn.Ping(call)
		cancel()
		if err != nil {
			return err
		}
	}
}
