// Package discordtest is a Discord on loopback for tests: the REST API (v9 and v10 answer alike), the gateway, and the CDN.
//
// Start one, make a guild with Guild, let people speak with Say, and look at Messages for what the bot has said. It speaks the
// platform's wire format as https://discord.com/developers/docs has it: Hello, Identify, Resume with replay, heartbeats, close codes,
// nonces, rate limits. It can imitate failures: Fail spoils a request, Drop and similar
// methods a gateway connection. It does not support voice, sharding, compression, or permissions of members.
package discordtest

import (
	"net/http"
	"net/http/httptest"
	"strconv"
	"time"

	"github.com/flynnhost/flynn/sdk/plugintest/fake"
	"github.com/flynnhost/flynn/sdk/plugintest/platform"
)

// Server is a Discord with one bot.
type Server struct {
	Token string // of the bot
	Self  User

	t    platform.TB
	http *httptest.Server

	mu           platform.State
	snowflake    int64
	users        map[string]User
	guilds       []*guild
	channels     map[string]*Channel
	sessions     map[string]*session
	links        map[*link]bool
	interactions map[string]*Interaction
	commands     map[string][]byte // by guild, "" for all
	files        map[string]file
	faults       platform.Faults[*Fault] // by method and the end of a path
	requests     []string
	typing       map[string]int
	refusal      int  // close code of the next Identify
	silent       bool // heartbeats are not answered
	heartbeat    time.Duration
	identified   int
	resumed      int
	beats        int
	intents      int
}

// User is a person, the bot, or another one.
type User struct {
	ID         string `json:"id"`
	Username   string `json:"username"`
	GlobalName string `json:"global_name,omitempty"`
	Bot        bool   `json:"bot,omitempty"`
}

// file is an attachment on the CDN.
type file struct {
	name, kind string
	body       []byte
	signature  string // of the current address; older ones have expired
}

// Start starts a Discord that ends with the test.
func Start(t platform.TB) *Server {
	s := &Server{
		Token: "token-of-the-bot", t: t, heartbeat: 10 * time.Second,
		users: map[string]User{}, channels: map[string]*Channel{}, sessions: map[string]*session{}, links: map[*link]bool{},
		interactions: map[string]*Interaction{}, commands: map[string][]byte{}, files: map[string]file{}, typing: map[string]int{},
	}
	s.Self = User{ID: s.id(), Username: "flynn", Bot: true}
	s.users[s.Self.ID] = s.Self
	s.http = platform.Serve(t, s.routes())
	t.Cleanup(s.Drop)
	return s
}

// Watch makes the server report what people see of the bot.
func (s *Server) Watch(report func(fake.Report)) { s.mu.Watch(report) }

// API returns the base URL of the REST API.
func (s *Server) API() string { return s.http.URL + "/api/v10" }

// CDN returns the base URL of attachments.
func (s *Server) CDN() string { return s.http.URL + "/cdn" }

// id makes a snowflake. Every one is larger than all before. s.mu is held, or nobody else is there yet.
func (s *Server) id() string {
	const epoch = 1420070400000
	s.snowflake = max(s.snowflake+1, (time.Now().UnixMilli()-epoch)<<22)
	return strconv.FormatInt(s.snowflake, 10)
}

// Await waits until a condition holds that depends on the server alone. It is asked again at every change.
func (s *Server) Await(what string, holds func() bool) {
	s.t.Helper()
	s.mu.Until(s.t, what, holds)
}

// Fault spoils one request.
type Fault struct {
	Method, Path string // of the first request that it fits; Path is the end of it, such as "/messages"
	// Status answers instead of the platform. 0 lets the request through.
	Status     int
	RetryAfter float64 // seconds, with 429
	Global     bool
	Code       int    // Discord's own code
	Body       string // instead of Discord's usual
	Header     http.Header
	// CutBefore drops the connection with nothing done, CutAfter when everything is done and before the answer.
	CutBefore, CutAfter bool
}

// Fail spoils the next request that fits.
func (s *Server) Fail(f Fault) {
	defer s.mu.Change()()
	s.faults.Add(f.Method+" "+f.Path, &f)
}

// Requests returns all requests so far, as "METHOD path".
func (s *Server) Requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.requests...)
}
