// Package slacktest is a Slack on loopback for tests: the part of the Web API that a chat bot uses, and Socket Mode with its
// envelopes, redeliveries and replaced connections.
//
// Begin with Start, and give the address of URL to the client under test. Say, Edit, Erase, React, Press and Command are what people
// do; Fail makes a method of the Web API answer badly; Refresh, Warn, Drop and Refuse are what happens to connections. Messages
// and Events tell what came of it. Errors, limits and shapes follow the Slack documentation; what a client may rely on is
// checked by this package's own tests. It keeps everything in memory and knows one workspace.
package slacktest

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"time"

	"github.com/flynnhost/flynn/sdk/plugintest/fake"
	"github.com/flynnhost/flynn/sdk/plugintest/platform"
)

// The credentials and the bot of the workspace.
const (
	AppToken = "xapp-1-A1-test"
	BotToken = "xoxb-1-test"
	Team     = "T1"
	BotUser  = "U0BOT"
	BotID    = "B0BOT"
)

// Config has the options. The zero value is Slack's own behaviour.
type Config struct {
	RedeliverAfter time.Duration // without an ack; 3 s
	Redeliveries   int           // 3
}

// User is a person or a bot of the workspace, or of another one.
type User struct {
	ID, Name string
	Team     string // Team
	Admin    bool
	Owner    bool
	Primary  bool
	Guest    bool
	Bot      bool
}

// Channel is a conversation.
type Channel struct {
	ID, Name string
	Kind     string // "channel" (default), "group", "im", "mpim"
	Outside  bool   // the bot is no member
	Archived bool
	ReadOnly bool   // its settings let few people write
	User     string // the other one of an im
}

// Server is the fake.
type Server struct {
	config Config
	http   *httptest.Server
	ctx    context.Context
	stop   context.CancelFunc
	work   sync.WaitGroup // handlers of WebSockets, and timers

	mu       platform.State
	closed   bool
	clock    int64 // of the latest ts, in microseconds
	users    map[string]User
	channels map[string]Channel
	messages map[string][]Message // by channel, oldest first
	files    map[string]*File
	uploads  map[string]*File       // by path, not completed yet
	faults   platform.Faults[Fault] // by method
	calls    map[string]int
	sockets  []*socket
	opened   int  // connections so far
	refuse   bool // WebSockets
	events   []*Event
	pending  map[string]*Event // by envelope id
	statuses []string
}

// Start runs a Slack until the end of the test.
func Start(t platform.TB, c Config) *Server {
	t.Helper()
	if c.RedeliverAfter == 0 {
		c.RedeliverAfter = 3 * time.Second
	}
	if c.Redeliveries == 0 {
		c.Redeliveries = 3
	}
	ctx, stop := context.WithCancel(context.Background())
	s := &Server{
		config: c, ctx: ctx, stop: stop, clock: time.Now().UnixMicro(),
		users: map[string]User{}, channels: map[string]Channel{}, messages: map[string][]Message{},
		files: map[string]*File{}, uploads: map[string]*File{}, calls: map[string]int{},
		pending: map[string]*Event{},
	}
	s.AddUser(User{ID: BotUser, Name: "flynn", Bot: true})
	t.Cleanup(s.work.Wait)
	s.http = platform.Serve(t, s.routes())
	t.Cleanup(s.end)
	return s
}

func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/api/{method}", s.serveMethod)
	mux.HandleFunc("GET /socket/{ticket}", s.serveSocket)
	mux.HandleFunc("POST /upload/{id}", s.serveUpload)
	mux.HandleFunc("GET /files/{id}", s.serveFile)
	return mux
}

// end stops redeliveries and WebSockets.
func (s *Server) end() {
	defer s.mu.Change()()
	s.closed = true
	for _, e := range s.events {
		s.unschedule(e)
	}
	s.stop()
}

// URL returns the base of the Web API.
func (s *Server) URL() string { return s.http.URL + "/api/" }

// AddUser adds a person.
func (s *Server) AddUser(u User) {
	defer s.mu.Change()()
	if u.Team == "" {
		u.Team = Team
	}
	s.users[u.ID] = u
}

// AddChannel makes a conversation.
func (s *Server) AddChannel(c Channel) {
	defer s.mu.Change()()
	if c.Kind == "" {
		c.Kind = "channel"
	}
	s.channels[c.ID] = c
}

// Watch makes the server report what people see of the bot.
func (s *Server) Watch(report func(fake.Report)) { s.mu.Watch(report) }

// stamp returns a new ts, higher than all before. s.mu is held.
func (s *Server) stamp() string {
	s.clock = max(s.clock+1, time.Now().UnixMicro())
	return fmt.Sprintf("%d.%06d", s.clock/1e6, s.clock%1e6)
}

// Messages returns those of a conversation, oldest first.
func (s *Server) Messages(channel string) []Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.messages[channel])
}

// Calls counts the calls of a method so far, refused ones included.
func (s *Server) Calls(method string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls[method]
}

// Statuses returns those of assistant threads that were set: "channel thread status".
func (s *Server) Statuses() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.statuses)
}

// Uploaded returns the files that were completed, by name.
func (s *Server) Uploaded() map[string][]byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := map[string][]byte{}
	for f := range maps.Values(s.files) {
		out[f.Name] = f.Body
	}
	return out
}
