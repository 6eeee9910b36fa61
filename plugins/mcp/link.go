package main

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// link is one connection to the server, ready to be used.
type link struct {
	session *mcp.ClientSession
	name    string // name that the server reports
	changed chan struct{}
	gone    chan struct{} // closed with the connection; lost returns why then
	lost    error
	end     func() error

	mu       sync.Mutex
	progress map[string]func(*mcp.ProgressNotificationParams) // of the calls under way, by token
}

// endless means that a server has not ended with its connection. Only the host can end it now, with everything that it has started: by
// the end of this process, whose group it is in.
type endless struct{ error }

// connect makes a connection and lets the server introduce itself.
func (p *provider) connect(ctx context.Context) (*link, error) {
	ctx, cancel := context.WithTimeout(ctx, p.timeouts.connect)
	defer cancel()
	transport, end, err := p.dial(ctx)
	if err != nil {
		return nil, err
	}
	if end == nil {
		end = func() error { return nil }
	}
	l := &link{
		changed: make(chan struct{}, 1), gone: make(chan struct{}), end: end, progress: map[string]func(*mcp.ProgressNotificationParams){},
	}
	l.session, err = p.client(l).Connect(ctx, transport, nil)
	if err != nil {
		return nil, errors.Join(err, end())
	}
	l.name = "server without a name"
	if info := l.session.InitializeResult().ServerInfo; info != nil {
		l.name = fmt.Sprintf("%.64q %.32q", info.Name, info.Version)
	}
	go func() { // ends with the connection, for which close waits
		l.lost = l.session.Wait()
		close(l.gone)
	}()
	return l, nil
}

// client makes the client of a connection. It can neither ask a model nor a person for the server: sampling and elicitation are not declared,
// and answered as unknown methods.
func (p *provider) client(l *link) *mcp.Client {
	options := &mcp.ClientOptions{
		Capabilities: &mcp.ClientCapabilities{},
		KeepAlive:    p.timeouts.ping, KeepAliveFailureThreshold: 3,
		ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) {
			select {
			case l.changed <- struct{}{}:
			default: // one reading covers all earlier changes
			}
		},
		ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) { l.progressed(r.Params) },
	}
	return newClient(options, p.settings.Roots)
}

// watch passes the progress of a call on until the function is called.
func (l *link) watch(token string, f func(*mcp.ProgressNotificationParams)) (unwatch func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.progress[token] = f
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.progress, token)
	}
}

func (l *link) progressed(p *mcp.ProgressNotificationParams) {
	token, _ := p.ProgressToken.(string)
	l.mu.Lock()
	f := l.progress[token]
	l.mu.Unlock()
	if f != nil {
		f(p)
	}
}

// failure is why the connection is gone.
func (l *link) failure() error {
	if l.lost == nil {
		return errors.New("the server has closed the connection")
	}
	return fmt.Errorf("the connection failed: %w", l.lost)
}

// close ends the connection and returns when the server is gone, or with endless when it stays.
func (l *link) close() error {
	_ = l.session.Close()
	err := l.end()
	<-l.gone
	return err
}
