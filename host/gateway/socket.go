package gateway

import (
	"context"
	"errors"
	"net/http"
	"reflect"
	"sync"
	"time"

	"github.com/coder/websocket"
	"golang.org/x/sync/errgroup"

	"github.com/flynnhost/flynn/host/internal/jsonform"
	"github.com/flynnhost/flynn/host/message"
)

const (
	maxSockets        = 256 // of clients with the token
	helloTimeout      = 10 * time.Second
	frameWriteTimeout = 10 * time.Second
	goodbyeTimeout    = time.Second
	// approvalsInterval is how soon a request of another conversation shows.
	approvalsInterval = 2 * time.Second
	// resyncPause keeps a watcher that falls behind again at once from spinning.
	resyncPause = 200 * time.Millisecond
	outBuffer   = 64
)

// socket serves one WebSocket until the client goes or the server ends.
func (s *Server) socket(w http.ResponseWriter, r *http.Request) {
	s.sockets.Add(1)
	defer s.sockets.Done()
	conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{
		Subprotocols: []string{Subprotocol},
		// The guard has checked the origin already, more strictly.
		InsecureSkipVerify: true,
	})
	if err != nil {
		s.log.Debug("gateway could not open a socket", "error", err)
		return
	}
	defer conn.CloseNow()
	s.metrics.Sockets.Inc()
	defer s.metrics.Sockets.Dec()
	if conn.Subprotocol() != Subprotocol {
		_ = conn.Close(websocket.StatusPolicyViolation, "ask for the subprotocol "+Subprotocol)
		return
	}
	conn.SetReadLimit(MaxFrame)
	hello, by, ok := s.greet(r.Context(), conn)
	if !ok {
		return
	}
	token := hello.Token
	hello.Token = ""
	ss := &session{
		Server: s, conn: conn, hello: hello, by: by, leave: sync.OnceFunc(func() { s.open.Add(-1) }),
		again: make(chan struct{}, 1), out: make(chan ServerFrame, outBuffer), poke: make(chan struct{}, 1), opened: make(chan struct{}),
	}
	defer ss.leave()
	if s.open.Add(1) > maxSockets {
		ss.refuse(r.Context(), CodeLimited, "too many sockets are open")
		return
	}
	ss.now = func() (Caller, bool) { return s.caller(token) }
	err = ss.run(r.Context())
	s.log.Debug("gateway socket ended", "channel", hello.Channel, "conversation", hello.Conversation, "error", err)
}

// greet reads the hello and checks its token, and whether the conversation is for its caller.
func (s *Server) greet(ctx context.Context, conn *websocket.Conn) (ClientFrame, Caller, bool) {
	ctx, cancel := context.WithTimeout(ctx, helloTimeout)
	defer cancel()
	defer s.strangers.enter(cancel)()
	f, err := readFrame(ctx, conn)
	var bad badFrame
	switch {
	case errors.As(err, &bad):
		refuse(ctx, conn, CodeBadRequest, bad.Error())
		return f, Caller{}, false
	case err != nil:
		return f, Caller{}, false
	case f.Type != TypeHello:
		refuse(ctx, conn, CodeUnauthorized, "the first frame must be hello")
		return f, Caller{}, false
	}
	s.metrics.Frames.WithLabelValues(TypeHello).Inc()
	switch by, status := s.check(f.Token, "socket"); {
	case status == 0 && (by.Owner() || by.Writes(f.Channel, f.Conversation)):
		return f, by, true
	case status == 0:
		refuse(ctx, conn, CodeForbidden, "this conversation is not yours")
	case status == http.StatusTooManyRequests:
		refuse(ctx, conn, CodeLimited, "too many wrong tokens; wait a second")
	default:
		refuse(ctx, conn, CodeUnauthorized, "the token is wrong; open the address that flynn open prints")
	}
	return f, Caller{}, false
}

// session is one authorized socket. One goroutine writes all frames, which come through out.
type session struct {
	*Server
	conn  *websocket.Conn
	hello ClientFrame
	by    Caller
	leave func()                // frees the socket's place
	now   func() (Caller, bool) // the caller as of now
	out   chan ServerFrame
	poke  chan struct{} // asks watch to look at the approvals now
	again chan struct{} // asks watch to start again with the history
	// opened is closed once the conversation is watched and its history is on the way. Frames of the client wait for it, so
	// that the client sees their effects as events.
	opened  chan struct{}
	opening sync.Once
}

var errDone = errors.New("socket is done")

// run ends when the client goes, breaks the protocol or reads too slowly, or when ctx ends.
func (ss *session) run(ctx context.Context) error {
	g, inner := errgroup.WithContext(ctx)
	// The library drops the connection without a close frame when a read's context ends. So reading has a context of its own,
	// which ends after the close frame.
	reading, hangUp := context.WithCancel(context.WithoutCancel(ctx))
	defer hangUp()
	g.Go(func() error { return ss.write(inner) })
	g.Go(func() error { return ss.watch(inner) })
	g.Go(func() error { return ss.ping(inner) })
	g.Go(func() error { return ss.read(reading, inner) })
	g.Go(func() error {
		<-inner.Done()
		if ctx.Err() != nil {
			// A client that reads nothing would delay the shutdown for as long as the library waits.
			cut := time.AfterFunc(goodbyeTimeout, hangUp)
			defer cut.Stop()
			_ = ss.conn.Close(websocket.StatusGoingAway, "flynn is shutting down")
		}
		_ = ss.conn.CloseNow()
		return nil
	})
	return g.Wait()
}

// read handles the client's frames, one after the other.
func (ss *session) read(reading, ctx context.Context) error {
	select {
	case <-ss.opened:
	case <-ctx.Done():
		return ctx.Err()
	}
	for {
		f, err := readFrame(reading, ss.conn)
		var bad badFrame
		if errors.As(err, &bad) && f.Type == TypeSend && validID(f.ID) {
			// A client resends what was neither accepted nor refused; ending the socket would make that a loop.
			err = ss.push(ctx, ServerFrame{Type: TypeError, Code: CodeBadRequest, ID: f.ID, Message: bad.Error()})
			if err != nil {
				return err
			}
			continue
		}
		if errors.As(err, &bad) {
			ss.refuse(ctx, CodeBadRequest, bad.Error())
			return err
		}
		if err != nil {
			return err
		}
		ss.metrics.Frames.WithLabelValues(f.Type).Inc()
		if err := ss.handle(ctx, f); err != nil {
			return err
		}
	}
}

// handle does what one frame asks for. It returns an error only when the socket must end.
func (ss *session) handle(ctx context.Context, f ClientFrame) error {
	call, cancel := context.WithTimeout(ctx, backendTimeout)
	defer cancel()
	h := ss.hello
	if err := ss.lasts(ctx); err != nil {
		return err
	}
	switch f.Type {
	case TypeSend:
		if !ss.by.Writes(h.Channel, h.Conversation) {
			return ss.push(ctx, ServerFrame{Type: TypeError, Code: CodeReadOnly, ID: f.ID, Message: "this conversation can be read here, not written to"})
		}
		if err := ss.backend.Conversations.Submit(call, ownMessage(ss.by, h.Channel, h.Conversation, f.ID, f.Text, f.Files)); err != nil {
			return ss.pushError(ctx, f.ID, err)
		}
		return ss.push(ctx, ServerFrame{Type: TypeAccepted, ID: f.ID})
	case TypeStop:
		if err := ss.backend.Conversations.Stop(call, h.Channel, h.Conversation); err != nil {
			return ss.pushError(ctx, "", err)
		}
		return nil
	case TypeDecide:
		if !ss.by.Owner() {
			return ss.push(ctx, ServerFrame{Type: TypeError, Code: CodeForbidden, Message: "only an owner can answer requests for approval"})
		}
		err := Decide(call, ss.backend.Approvals, f.Approval, Answer{Grant: f.Grant, Scope: f.Scope}, ss.decider())
		ss.lookAtApprovals()
		if err != nil {
			return ss.pushError(ctx, "", err)
		}
		return nil
	case TypeHistory:
		select {
		case ss.again <- struct{}{}:
		default: // it is due already
		}
		return nil
	}
	ss.refuse(ctx, CodeBadRequest, "hello comes once")
	return errDone
}

// decider names who decides: the person who is signed in, or the owner on the frontend that the decision came through. A conversation of
// a channel is watched from the page.
func (ss *session) decider() string {
	switch {
	case ss.by.SignIn != "":
		return string(ss.by.Sender)
	case ss.hello.Channel == ChannelTerminal:
		return ownerKey(ChannelTerminal)
	}
	return ownerKey(ChannelWeb)
}

// lasts ends the socket once its caller is not who he was when he said hello: signed out, not admitted any more, or in another role.
func (ss *session) lasts(ctx context.Context) error {
	now, ok := ss.now()
	if ok && now == ss.by {
		return nil
	}
	if !ok {
		ss.refuse(ctx, CodeUnauthorized, "you are signed out")
	} // otherwise the client comes again, and learns what it may in its new role
	return errDone
}

// watch sends welcome, history and then events. It subscribes before it reads the history, so that no event is missed between the two.
func (ss *session) watch(ctx context.Context) error {
	h := ss.hello
	welcome := ServerFrame{Type: TypeWelcome, Channel: h.Channel, Conversation: h.Conversation, Write: ss.by.Writes(h.Channel, h.Conversation)}
	welcome.Version = ss.backend.Status.Status(ctx).Version
	if welcome.Write && ss.by.Owner() {
		intro := ss.Intro(h.Channel)
		welcome.Intro = &intro
	}
	if err := ss.push(ctx, welcome); err != nil {
		return err
	}
	var shown []Approval // what the client knows
	for resume := h.Resume; ; resume = "" {
		asked, err := ss.follow(ctx, resume, &shown)
		if err != nil {
			return err
		}
		if asked {
			continue
		}
		ss.metrics.Resyncs.Inc()
		if err := ss.push(ctx, ServerFrame{Type: TypeResync}); err != nil {
			return err
		}
		select {
		case <-time.After(resyncPause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// follow forwards events until the backend cuts the subscription off, the client asks for the history, or the socket must end.
func (ss *session) follow(ctx context.Context, resume string, shown *[]Approval) (asked bool, err error) {
	live, events, cancel := ss.backend.Conversations.Watch(ss.hello.Channel, ss.hello.Conversation)
	defer cancel()
	if err := ss.pushHistory(ctx, resume, live); err != nil {
		return false, err
	}
	ss.opening.Do(func() { close(ss.opened) })
	tick := time.NewTicker(approvalsInterval)
	defer tick.Stop()
	ss.lookAtApprovals()
	for {
		var err error
		select {
		case e, ok := <-events:
			if !ok {
				return false, nil
			}
			if err = ss.lasts(ctx); err == nil {
				err = ss.pushEvent(ctx, e)
			}
		case <-tick.C:
			err = ss.pushApprovals(ctx, events, shown)
		case <-ss.poke:
			err = ss.pushApprovals(ctx, events, shown)
		case <-ss.again:
			return true, nil
		case <-ctx.Done():
			return false, ctx.Err()
		}
		if err != nil {
			return false, err
		}
	}
}

func (ss *session) pushEvent(ctx context.Context, e message.Event) error {
	if e.Kind == message.ToolApproval || e.Kind == message.ToolResult {
		ss.lookAtApprovals()
	}
	return ss.push(ctx, ServerFrame{Type: TypeEvent, Event: &e})
}

func (ss *session) lookAtApprovals() {
	select {
	case ss.poke <- struct{}{}:
	default: // a look is due already
	}
}

// pushApprovals sends the pending requests if they differ from what the client knows, behind the events that led to them.
func (ss *session) pushApprovals(ctx context.Context, events <-chan message.Event, shown *[]Approval) error {
	if err := ss.lasts(ctx); err != nil {
		return err
	}
	call, cancel := context.WithTimeout(ctx, backendTimeout)
	defer cancel()
	list, err := ss.backend.Approvals.Approvals(call)
	if err != nil {
		ss.log.Warn("gateway could not list approvals", "error", err)
		return nil // the next tick tries again
	}
	views := ss.by.ApprovalViews(ss.backend.Approvals, list)
	if reflect.DeepEqual(views, *shown) {
		return nil
	}
	for range len(events) {
		e, ok := <-events
		if !ok {
			break // follow finds it closed
		}
		if err := ss.pushEvent(ctx, e); err != nil {
			return err
		}
	}
	*shown = views
	return ss.push(ctx, ServerFrame{Type: TypeApprovals, Approvals: views})
}

// pushHistory sends the entries after the one with key resume, or all if it is not among them, and the past events of the running turns.
func (ss *session) pushHistory(ctx context.Context, resume string, live []message.Event) error {
	call, cancel := context.WithTimeout(ctx, backendTimeout)
	defer cancel()
	page, err := ss.backend.Conversations.Entries(call, ss.hello.Channel, ss.hello.Conversation, "", historyLimit)
	if err != nil {
		return ss.pushError(ctx, "", err)
	}
	list := page.Items
	f := ServerFrame{Type: TypeHistory, Entries: orEmpty(list), Earlier: page.Next, Live: live}
	for i := len(list) - 1; resume != "" && i >= 0; i-- {
		if list[i].Key == resume {
			f.Entries, f.Resumed = list[i+1:], true
			break
		}
	}
	return ss.push(ctx, f)
}

func (ss *session) pushError(ctx context.Context, id string, err error) error {
	code := errorCode(err)
	if code == CodeUnavailable {
		ss.log.Warn("gateway request failed", "error", err)
	}
	return ss.push(ctx, ServerFrame{Type: TypeError, Code: code, ID: id, Message: err.Error()})
}

func (ss *session) push(ctx context.Context, f ServerFrame) error {
	select {
	case ss.out <- f:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (ss *session) write(ctx context.Context) error {
	for {
		select {
		case f := <-ss.out:
			// Like a read, a write that its context interrupts would drop the connection without a close frame.
			if err := writeFrame(context.WithoutCancel(ctx), ss.conn, f); err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// ping tells the client that the server lives, and learns whether the client does.
func (ss *session) ping(ctx context.Context) error {
	tick := time.NewTicker(PingInterval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		if err := ss.push(ctx, ServerFrame{Type: TypePing}); err != nil {
			return err
		}
		call, cancel := context.WithTimeout(ctx, frameWriteTimeout)
		err := ss.conn.Ping(call)
		cancel()
		if err != nil {
			return err
		}
	}
}

// badFrame is a frame that breaks the protocol.
type badFrame struct{ error }

func readFrame(ctx context.Context, conn *websocket.Conn) (ClientFrame, error) {
	kind, data, err := conn.Read(ctx)
	if err != nil {
		return ClientFrame{}, err
	}
	if kind != websocket.MessageText {
		return ClientFrame{}, badFrame{errors.New("frames must be text")}
	}
	f, err := DecodeFrame(data)
	if err != nil {
		return f, badFrame{err}
	}
	return f, nil
}

func writeFrame(ctx context.Context, conn *websocket.Conn, f ServerFrame) error {
	data, err := jsonform.Marshal(f)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, frameWriteTimeout)
	defer cancel()
	return conn.Write(ctx, websocket.MessageText, data)
}

// refuse tells the client why and closes.
func refuse(ctx context.Context, conn *websocket.Conn, code, text string) {
	if writeFrame(ctx, conn, ServerFrame{Type: TypeError, Code: code, Message: text}) == nil {
		_ = conn.Close(websocket.StatusPolicyViolation, code)
	}
}

// refuse is like the function, and frees the socket's place first: the client may not answer the close for seconds.
func (ss *session) refuse(ctx context.Context, code, text string) {
	ss.leave()
	refuse(ctx, ss.conn, code, text)
}
