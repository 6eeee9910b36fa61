// Package telegramtest is a Bot API server for tests: it speaks the real wire format on loopback and keeps what the bot did.
//
// Begin with Start. People act through a Chat (Say, Edit, Press and their like), which makes updates; they reach the bot by getUpdates
// or, after setWebhook, by webhook, and come again until they are confirmed. Await and Messages show what the bot did, and
// Fail makes the next calls of a method go wrong in the ways in which the real server goes wrong.
//
// It is no model of Telegram's rights: every bot sees everything, and nobody is refused unless a test says so by Fail, Block or Migrate.
package telegramtest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/flynnhost/flynn/sdk/plugintest/fake"
	"github.com/flynnhost/flynn/sdk/plugintest/platform"
)

// Token is the token of the only bot.
const Token = "4242424242:AAF-telegramtest_telegramtest_token"

// Bot returns the only bot.
func Bot() User {
	return User{ID: 4242424242, IsBot: true, FirstName: "Flynn", Username: "Flynn_Test_Bot"}
}

// Server is a Bot API server with one bot.
type Server struct {
	URL string

	t    platform.TB
	http *httptest.Server
	end  chan struct{} // closed at the end of the test
	work sync.WaitGroup

	mu      platform.State
	privacy bool
	chats   map[int64]*Chat
	people  int64
	calls   []Call
	faults  platform.Faults[Fault] // by method
	files   map[string]file
	revoked bool
	queue   queue
	queries map[string]bool // callback queries that are not answered yet
}

// Call is one call of the bot.
type Call struct {
	Method string
	Params map[string]string // JSON values as JSON
	Files  map[string]Upload
	At     time.Time
}

// Upload is a file in a call.
type Upload struct {
	Name, Type string
	Content    []byte
}

// Fault makes one call go wrong.
type Fault struct {
	Code        int    // error_code and HTTP status
	Description string // in full, such as "Bad Request: chat not found"
	RetryAfter  int    // seconds, with code 429
	Delay       time.Duration
	// Cut closes the connection instead of answering: after the call was carried out, or before.
	Cut Cut
	// HTML answers with a page, as a proxy in front of the server does.
	HTML bool
}

// Cut is a moment at which a connection breaks.
type Cut int

// The moments at which a connection breaks.
const (
	CutNever Cut = iota
	CutBefore
	CutAfter
)

// TooMany returns the server's response that asks for a pause.
func TooMany(seconds int) Fault {
	return Fault{Code: 429, Description: fmt.Sprintf("Too Many Requests: retry after %d", seconds), RetryAfter: seconds}
}

// Start starts a server that ends with the test.
func Start(t platform.TB) *Server {
	s := &Server{
		t: t, end: make(chan struct{}), privacy: true, chats: map[int64]*Chat{}, files: map[string]file{}, queries: map[string]bool{},
		queue: queue{next: 700_000_001},
	}
	t.Cleanup(s.work.Wait)
	s.http = platform.Serve(t, s)
	t.Cleanup(func() { close(s.end) })
	s.URL = s.http.URL
	s.work.Go(s.deliver)
	return s
}

// Disconnect breaks every connection.
func (s *Server) Disconnect() { s.http.CloseClientConnections() }

// Watch makes the server report what people see of the bot.
func (s *Server) Watch(report func(fake.Report)) { s.mu.Watch(report) }

// SetPrivacy turns the bot's privacy mode on (the initial state of a new bot) or off. It only affects getMe.
func (s *Server) SetPrivacy(on bool) {
	defer s.mu.Change()()
	s.privacy = on
}

// Revoke makes the token invalid, or valid again.
func (s *Server) Revoke(revoked bool) {
	defer s.mu.Change()()
	s.revoked = revoked
}

// Fail makes the next calls of a method go wrong, one for each fault.
func (s *Server) Fail(method string, faults ...Fault) {
	defer s.mu.Change()()
	s.faults.Add(method, faults...)
}

// fault takes the next fault of a method.
func (s *Server) fault(method string) Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	f, _ := s.faults.Take(platform.At(method))
	return f
}

// apiError is an answer with "ok": false.
type apiError struct {
	Code        int
	Description string
	RetryAfter  int
	MigrateTo   int64
}

func badRequest(format string, args ...any) *apiError {
	return &apiError{Code: 400, Description: "Bad Request: " + fmt.Sprintf(format, args...)}
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if rest, ok := strings.CutPrefix(r.URL.Path, "/file/bot"+Token+"/"); ok {
		s.download(w, rest)
		return
	}
	token, method, ok := strings.Cut(strings.TrimPrefix(r.URL.Path, "/bot"), "/")
	if !strings.HasPrefix(r.URL.Path, "/bot") || !ok || !strings.Contains(token, ":") {
		refuse(w, &apiError{Code: 404, Description: "Not Found"})
		return
	}
	if token != Token || s.isRevoked() {
		refuse(w, &apiError{Code: 401, Description: "Unauthorized"})
		return
	}
	call, err := readCall(r, method)
	if err != nil {
		refuse(w, badRequest("%v", err))
		return
	}
	s.answer(w, r, call)
}

func (s *Server) isRevoked() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.revoked
}

// answer carries out a call, unless it should fail.
func (s *Server) answer(w http.ResponseWriter, r *http.Request, c Call) {
	fault := s.fault(c.Method)
	platform.Pause(fault.Delay, r.Context().Done()) // which ends with the server, too
	if fault.Cut == CutBefore {
		panic(http.ErrAbortHandler)
	}
	switch {
	case fault.HTML:
		w.Header().Set("Content-Type", "text/html")
		w.WriteHeader(fault.Code)
		fmt.Fprintf(w, "<html><head><title>%d</title></head><body>nginx</body></html>", fault.Code)
		return
	case fault.Code != 0:
		s.keep(c)
		refuse(w, &apiError{Code: fault.Code, Description: fault.Description, RetryAfter: fault.RetryAfter})
		return
	}
	result, failure := s.call(r, c)
	s.keep(c)
	if fault.Cut == CutAfter {
		panic(http.ErrAbortHandler)
	}
	if failure != nil {
		refuse(w, failure)
		return
	}
	platform.JSON(w, http.StatusOK, map[string]any{"ok": true, "result": result})
}

func refuse(w http.ResponseWriter, e *apiError) {
	body := map[string]any{"ok": false, "error_code": e.Code, "description": e.Description}
	parameters := map[string]any{}
	if e.RetryAfter > 0 {
		parameters["retry_after"] = e.RetryAfter
	}
	if e.MigrateTo != 0 {
		parameters["migrate_to_chat_id"] = e.MigrateTo
	}
	if len(parameters) > 0 {
		body["parameters"] = parameters
	}
	platform.JSON(w, e.Code, body)
}

// call carries out one method. Like the real server it does not care for the case of a method's letters.
func (s *Server) call(r *http.Request, c Call) (any, *apiError) {
	method := strings.ToLower(c.Method)
	if method == "getupdates" { // which waits
		return s.getUpdates(r.Context(), c)
	}
	do, ok := map[string]func(Call) (any, *apiError){
		"getme":               s.me,
		"setwebhook":          s.setWebhook,
		"deletewebhook":       s.deleteWebhook,
		"getwebhookinfo":      s.webhookInfo,
		"sendmessage":         s.sendMessage,
		"sendphoto":           func(c Call) (any, *apiError) { return s.sendMedia(c, "photo") },
		"senddocument":        func(c Call) (any, *apiError) { return s.sendMedia(c, "document") },
		"editmessagetext":     s.editMessageText,
		"deletemessage":       s.deleteMessage,
		"setmessagereaction":  s.setReaction,
		"sendchataction":      s.chatAction,
		"answercallbackquery": s.answerCallback,
		"getfile":             s.getFile,
		"getchat":             s.getChat,
	}[method]
	if !ok {
		return nil, &apiError{Code: 404, Description: "Not Found: method not found"}
	}
	defer s.mu.Change()()
	result, failure := do(c)
	if failure != nil {
		return nil, failure
	}
	text, err := json.Marshal(result) // while nothing changes it
	if err != nil {
		panic(err) // only this package's own types come here
	}
	return json.RawMessage(text), nil
}

func (s *Server) me(Call) (any, *apiError) {
	b := Bot()
	return map[string]any{
		"id": b.ID, "is_bot": true, "first_name": b.FirstName, "username": b.Username,
		"can_join_groups": true, "can_read_all_group_messages": !s.privacy, "supports_inline_queries": false,
	}, nil
}

// keep records a call that was answered.
func (s *Server) keep(c Call) {
	defer s.mu.Change()()
	c.At = time.Now()
	s.calls = append(s.calls, c)
}

// Calls returns the calls of a method that were answered, oldest first.
func (s *Server) Calls(method string) []Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.of(method)
}

func (s *Server) of(method string) []Call {
	var out []Call
	for _, c := range s.calls {
		if strings.EqualFold(c.Method, method) {
			out = append(out, c)
		}
	}
	return out
}

// Await waits until a method was called n times and returns the last of them.
func (s *Server) Await(method string, n int) Call {
	s.t.Helper()
	var got []Call
	s.mu.Await(s.t, fmt.Sprintf("%d calls of %s", n, method), func() bool {
		got = s.of(method)
		return len(got) >= n
	})
	return got[n-1]
}

// maxUpload is the real server's limit for one call.
const maxUpload = 50<<20 + 1<<20

// readCall reads the parameters in every form that the API has: query, form, JSON and multipart.
func readCall(r *http.Request, method string) (Call, error) {
	c := Call{Method: method, Params: map[string]string{}, Files: map[string]Upload{}}
	for name, values := range r.URL.Query() {
		c.Params[name] = values[0]
	}
	kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	switch kind {
	case "application/json":
		return c, readJSON(r.Body, c.Params)
	case "multipart/form-data":
		return c, readMultipart(r, c)
	}
	if err := r.ParseForm(); err != nil {
		return c, err
	}
	for name, values := range r.PostForm {
		c.Params[name] = values[0]
	}
	return c, nil
}

func readJSON(body io.Reader, params map[string]string) error {
	var fields map[string]json.RawMessage
	if err := json.NewDecoder(body).Decode(&fields); err != nil {
		return fmt.Errorf("can't parse JSON: %w", err)
	}
	for name, raw := range fields {
		var text string
		if json.Unmarshal(raw, &text) != nil {
			text = string(raw)
		}
		params[name] = text
	}
	return nil
}

func readMultipart(r *http.Request, c Call) error {
	form, err := r.MultipartReader()
	if err != nil {
		return err
	}
	for parts := 0; ; parts++ {
		part, err := form.NextPart()
		if err == io.EOF || err != nil && parts == 0 && r.ContentLength == 0 { // the real server takes a form of nothing, too
			return nil
		}
		if err != nil {
			return err
		}
		content, err := io.ReadAll(io.LimitReader(part, maxUpload))
		if err != nil {
			return err
		}
		if part.FileName() == "" {
			c.Params[part.FormName()] = string(content)
			continue
		}
		c.Files[part.FormName()] = Upload{Name: part.FileName(), Type: part.Header.Get("Content-Type"), Content: content}
	}
}

// Call calls a method with pairs of a name and a value, as another program with the token would, and returns the result's JSON.
func (s *Server) Call(method string, pairs ...string) (json.RawMessage, error) {
	form := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		form.Set(pairs[i], pairs[i+1])
	}
	resp, err := s.http.Client().PostForm(s.URL+"/bot"+Token+"/"+method, form)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	var answer struct {
		OK          bool
		Description string
		Result      json.RawMessage
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		return nil, err
	}
	if !answer.OK {
		return nil, errors.New(answer.Description)
	}
	return answer.Result, nil
}
