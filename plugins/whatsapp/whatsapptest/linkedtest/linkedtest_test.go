package linkedtest

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
	"go.mau.fi/libsignal/logger"
	"go.mau.fi/whatsmeow"
	"go.mau.fi/whatsmeow/binary"
	"go.mau.fi/whatsmeow/proto/waE2E"
	"go.mau.fi/whatsmeow/store/sqlstore"
	"go.mau.fi/whatsmeow/types"
	"go.mau.fi/whatsmeow/types/events"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"
	_ "modernc.org/sqlite" // the driver "sqlite"
)

// still says nothing: what cannot be decrypted is what a test wants.
type still struct{}

func (still) Debug(_, _ string)   {}
func (still) Info(_, _ string)    {}
func (still) Warning(_, _ string) {}
func (still) Error(_, _ string)   {}
func (still) Configure(string)    {}

func TestMain(m *testing.M) {
	var quiet logger.Loggable = still{}
	logger.Setup(&quiet)
	whatsmeow.WACertPubKey = Root()
	// A frame that the library reads while it is disconnected is taken by nobody, and its reader never ends.
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("go.mau.fi/whatsmeow/socket.(*FrameSocket).frameComplete"))
}

// client is the library itself, with a session in a folder of the test.
type client struct {
	*whatsmeow.Client
	store  *sqlstore.Container
	events chan any
	deny   func(any) bool // tells which events are not handled
}

func open(t *testing.T, s *Server, dir string, deny func(any) bool) *client {
	t.Helper()
	const options = "?_pragma=foreign_keys(1)&_pragma=busy_timeout(10000)&_pragma=synchronous(OFF)&_txlock=immediate"
	db, err := sql.Open("sqlite", "file:"+filepath.Join(dir, "session.db")+options)
	if err != nil {
		t.Fatal(err)
	}
	container := sqlstore.NewWithDB(db, "sqlite3", nil)
	if err := container.Upgrade(t.Context()); err != nil {
		t.Fatal(err)
	}
	device, err := container.GetFirstDevice(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c := &client{whatsmeow.NewClient(device, nil), container, make(chan any, 100), deny}
	c.SynchronousAck, c.EnableDecryptedEventBuffer = true, true
	c.SetPreLoginHTTPClient(s.HTTPClient())
	c.SetWebsocketHTTPClient(s.HTTPClient())
	c.SetMediaHTTPClient(s.HTTPClient())
	c.AddEventHandlerWithSuccessStatus(func(e any) bool {
		c.events <- e
		return c.deny == nil || !c.deny(e)
	})
	if err := c.ConnectContext(context.Background()); err != nil { // the context of the connection, which Disconnect has to end
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Disconnect()
		_ = container.Close()
	})
	return c
}

// next waits for an event of a type.
func next[E any](t *testing.T, c *client) E {
	t.Helper()
	timeout := time.After(time.Minute)
	for {
		select {
		case e := <-c.events:
			if found, ok := e.(E); ok {
				return found
			}
		case <-timeout:
			var e E
			t.Fatalf("no %T came", e)
		}
	}
}

// dial opens a socket as a client that speaks for itself.
func dial(t *testing.T, s *Server, origin string) (*websocket.Conn, error) {
	t.Helper()
	ws, resp, err := websocket.Dial(t.Context(), "wss://"+chatHost+"/ws/chat", &websocket.DialOptions{
		HTTPClient: s.HTTPClient(), HTTPHeader: http.Header{"Origin": {origin}},
	})
	if resp != nil && resp.Body != nil {
		_ = resp.Body.Close()
	}
	return ws, err
}

func TestHandshakesThatAreRefused(t *testing.T) {
	s := Start(t)
	if _, err := dial(t, s, "https://evil.test"); err == nil {
		t.Error("a page of somebody else was let in")
	}
	if w := s.Wrong(); len(w) != 1 || !strings.Contains(w[0], "evil.test") {
		t.Errorf("noted: %q", w)
	}
	frame := func(body string) string { return string([]byte{0, 0, byte(len(body))}) + body }
	for name, c := range map[string]struct{ said, noted string }{
		"an older protocol":   {"WA\x05\x03" + frame("x"), "the header is"},
		"another dictionary":  {"WA\x06\x02" + frame("x"), "the header is"},
		"a page":              {"GET / HTTP/1.1\r\n\r\n", "the header is"},
		"an empty frame":      {"WA\x06\x03\x00\x00\x00", "a frame of 0 bytes"},
		"a frame without end": {"WA\x06\x03\xff\xff\xff", "a frame of 16777215 bytes"},
		"no message":          {"WA\x06\x03" + frame("\xff\xff"), "read the client's hello"},
		"a hello without key": {"WA\x06\x03" + frame("\x12\x00"), "use the client's ephemeral key"},
		"a key that is none":  {"WA\x06\x03" + frame("\x12\x22\x0a\x20"+strings.Repeat("\x00", 32)), "use the client's ephemeral key"},
	} {
		t.Run(name, func(t *testing.T) {
			ws, err := dial(t, s, origin)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = ws.CloseNow() }()
			if err := ws.Write(t.Context(), websocket.MessageBinary, []byte(c.said)); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			if _, answer, err := ws.Read(ctx); err == nil || ctx.Err() != nil {
				t.Errorf("answered with %q, %v", answer, err)
			}
			s.Await("the refusal", func() bool { return len(s.noted()) > 0 })
			if w := s.Wrong(); len(w) != 1 || !strings.Contains(w[0], c.noted) {
				t.Errorf("noted: %q, want %q", w, c.noted)
			}
		})
	}
}

// noted is Wrong without forgetting.
func (s *Server) noted() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.wrong)
}

// TestADeviceWithItsAccount goes through all of it with one device: linking takes most of the time.
func TestADeviceWithItsAccount(t *testing.T) {
	s, dir := Start(t), t.TempDir()
	var again bool
	c := open(t, s, dir, func(e any) bool {
		m, ok := e.(*events.Message)
		if !ok || m.Message.GetConversation() != "twice" || again {
			return false
		}
		again = true
		return true
	})
	link(t, s, c)
	ann := s.Person("4915112345678", "901", "Ann")
	t.Run("a message comes again until it is confirmed", func(t *testing.T) { redelivery(t, s, c, ann) })
	t.Run("a message that comes with the same id is delivered once", func(t *testing.T) { swallowed(t, s, c, ann) })
	t.Run("what cannot be read is asked for again", func(t *testing.T) { retries(t, s, c, ann) })
	t.Run("media", func(t *testing.T) { media(t, s, c, ann) })
	t.Run("questions without an answer", func(t *testing.T) { questions(t, s, c) })
	t.Run("a second session takes over", func(t *testing.T) { replaced(t, s, c, dir) })
}

func link(t *testing.T, s *Server, c *client) {
	code := next[*events.QR](t, c).Codes[0]
	parts := strings.Split(code, ",")
	for name, wrong := range map[string]string{
		"three parts":    strings.Join(parts[:3], ","),
		"no key":         strings.Join(append(parts[:3:3], "x"), ","),
		"another ref":    strings.Join(append([]string{"x"}, parts[1:]...), ","),
		"another device": strings.Join([]string{parts[0], base64.StdEncoding.EncodeToString(make([]byte, 32)), parts[2], parts[3]}, ","),
	} {
		if err := s.Scan(wrong); err == nil {
			t.Errorf("%s: linked", name)
		}
	}
	if err := s.Scan(code); err != nil {
		t.Fatal(err)
	}
	if e := next[*events.PairSuccess](t, c); e.ID.User != Number || e.LID.User != Hidden || e.ID.Device == 0 {
		t.Errorf("linked as %s, %s", e.ID, e.LID)
	}
	next[*events.Connected](t, c)
	if !s.Linked() || !s.Online() || s.Logins() != 1 {
		t.Errorf("linked %v, online %v, %d logins", s.Linked(), s.Online(), s.Logins())
	}
	if err := s.Scan(code); err == nil {
		t.Error("a code was taken twice")
	}
}

func redelivery(t *testing.T, s *Server, c *client, ann *Person) {
	first := ann.Say("twice")
	if m := next[*events.Message](t, c); m.Info.ID != first || m.Info.PushName != "Ann" || m.Info.SenderAlt.User != "901" {
		t.Errorf("message %+v", m.Info)
	}
	second := ann.Say("and another one")
	next[*events.Message](t, c)
	s.Await("the receipt of the second", func() bool { return len(ann.Receipts()) == 1 })
	if n := s.Waiting(); n != 1 {
		t.Errorf("%d messages wait, want the first", n)
	}
	s.Drop()
	if m := next[*events.Message](t, c); m.Info.ID != first || m.Message.GetConversation() != "twice" {
		t.Errorf("after the login: %+v", m.Info)
	}
	s.Await("the receipt of the first", func() bool { return len(ann.Receipts()) == 2 })
	if r := ann.Receipts(); r[0] != (Receipt{second, "inactive"}) || r[1] != (Receipt{first, "inactive"}) || s.Waiting() != 0 {
		t.Errorf("receipts %v, %d wait", r, s.Waiting())
	}
}

func swallowed(t *testing.T, s *Server, c *client, ann *Person) {
	s.Await("the login", s.Online)
	ann.AddDevice(3)
	once, id := &waE2E.Message{Conversation: proto.String("once")}, c.GenerateMessageID()
	s.Swallow()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var sending sync.WaitGroup
	sending.Go(func() {
		if _, err := c.SendMessage(ctx, ann.Number, once, whatsmeow.SendRequestExtra{ID: id}); !errors.Is(err, context.Canceled) {
			t.Errorf("answered: %v", err)
		}
	})
	s.Await("the message", func() bool { return len(ann.Got()) == 2 })
	stop()
	sending.Wait()
	if _, err := c.SendMessage(t.Context(), ann.Number, once, whatsmeow.SendRequestExtra{ID: id}); err != nil {
		t.Fatal(err)
	}
	got := ann.Got()
	if len(got) != 2 || got[0].ID != id || got[0].Message.GetConversation() != "once" || got[0].Device == got[1].Device {
		t.Errorf("read by her two devices: %+v", got)
	}
	own := s.Phone().Got()
	if len(own) != 1 || own[0].Message.GetDeviceSentMessage().GetDestinationJID() != ann.Number.String() {
		t.Errorf("the own phone's copy: %+v", own)
	}
	s.Refuse(479)
	if _, err := c.SendMessage(t.Context(), ann.Number, &waE2E.Message{Conversation: proto.String("no")}); !errors.Is(err, whatsmeow.ErrServerReturnedError) {
		t.Errorf("refused: %v", err)
	}
}

func retries(t *testing.T, s *Server, c *client, ann *Person) {
	id := ann.Garble("clear in the end")
	next[*events.UndecryptableMessage](t, c)
	if m := next[*events.Message](t, c); m.Info.ID != id || m.Message.GetConversation() != "clear in the end" {
		t.Errorf("message %+v", m.Info)
	}
	s.Await("the receipt", func() bool { return slices.Contains(ann.Receipts(), Receipt{id, "inactive"}) })
	s.Await("all receipts", func() bool { return s.Waiting() == 0 })
	if !slices.Contains(ann.Receipts(), Receipt{id, "retry"}) {
		t.Errorf("receipts %v", ann.Receipts())
	}
	r, err := c.SendMessage(t.Context(), ann.Number, &waE2E.Message{Conversation: proto.String("come again?")})
	if err != nil {
		t.Fatal(err)
	}
	ann.AskAgain(r.ID)
	s.Await("the message that was asked for", func() bool {
		got := ann.Got()
		last := got[len(got)-1]
		return last.ID == r.ID && last.Retry == 1 && last.Message.GetConversation() == "come again?"
	})
}

func media(t *testing.T, s *Server, c *client, ann *Person) {
	body := bytes.Repeat([]byte("a medium "), 1000)
	m := ann.Attach("a.txt", "text/plain", "see", body)
	if got, err := c.Download(t.Context(), m.DocumentMessage); err != nil || !bytes.Equal(got, body) {
		t.Errorf("downloaded %d bytes: %v", len(got), err)
	}
	u, err := c.Upload(t.Context(), body, whatsmeow.MediaImage)
	if err != nil {
		t.Fatal(err)
	}
	image := &waE2E.ImageMessage{
		DirectPath: &u.DirectPath, MediaKey: u.MediaKey, FileSHA256: u.FileSHA256, FileEncSHA256: u.FileEncSHA256, FileLength: &u.FileLength,
	}
	if got, err := ann.Open(image); err != nil || !bytes.Equal(got, body) {
		t.Errorf("opened %d bytes: %v", len(got), err)
	}
	image.MediaKey = make([]byte, 32)
	if _, err := ann.Open(image); err == nil {
		t.Error("opened without the key")
	}
	s.MediaFails(http.StatusGone)
	defer s.MediaFails(0)
	if _, err := c.Download(t.Context(), m.DocumentMessage); !errors.Is(err, whatsmeow.ErrMediaDownloadFailedWith410) {
		t.Errorf("downloaded what is gone: %v", err)
	}
	for name, address := range map[string]string{
		"without auth": "/mms/image/x?token=x", "another hash": "/mms/image/x?token=x&auth=" + mediaAuth,
	} {
		r, err := s.HTTPClient().Post("https://"+mediaHost+address, "", strings.NewReader("body"))
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, r.Body)
		_ = r.Body.Close()
		if r.StatusCode == http.StatusOK {
			t.Errorf("%s: taken", name)
		}
	}
}

func questions(t *testing.T, s *Server, c *client) {
	if _, err := c.GetGroupInfo(t.Context(), types.NewJID("7-7", types.GroupServer)); !errors.Is(err, whatsmeow.ErrGroupNotFound) {
		t.Errorf("a group that there is not: %v", err)
	}
	if _, err := c.GetBlocklist(t.Context()); err == nil {
		t.Error("what is not spoken was answered")
	}
	if w := s.Wrong(); len(w) != 1 || !strings.Contains(w[0], "blocklist") {
		t.Errorf("noted: %q", w)
	}
}

func replaced(t *testing.T, s *Server, c *client, dir string) {
	second := open(t, s, dir, nil)
	next[*events.StreamReplaced](t, c)
	c.Disconnect()
	next[*events.Connected](t, second)
	s.TurnAway(402, map[string]any{"code": 101, "expire": 60})
	s.Drop()
	if e := next[*events.TemporaryBan](t, second); e.Expire != time.Minute {
		t.Errorf("ban %+v", e)
	}
	s.Remove()
	third := open(t, s, dir, nil)
	if e := next[*events.LoggedOut](t, third); !e.OnConnect {
		t.Errorf("%+v", e)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for left := 1; left > 0; { // the library deletes the session meanwhile
		list, err := third.store.GetAllDevices(ctx)
		if err != nil {
			t.Fatal(err)
		}
		left = len(list)
	}
}

func FuzzFrames(f *testing.F) {
	plain, err := pack(binary.Node{Tag: "iq", Attrs: binary.Attrs{"id": "1"}})
	if err != nil {
		f.Fatal(err)
	}
	long, err := pack(binary.Node{Tag: "iq", Content: bytes.Repeat([]byte("x"), longFrame)})
	if err != nil {
		f.Fatal(err)
	}
	for _, b := range [][]byte{plain, long, nil, {0}, {2}, {0, 248}} {
		f.Add(append([]byte{0, byte(len(b) >> 8), byte(len(b))}, b...))
	}
	f.Fuzz(func(t *testing.T, wire []byte) {
		frame, err := readFrame(bytes.NewReader(wire))
		if err != nil {
			return
		}
		if len(frame) == 0 || len(frame) > maxFrame || len(frame)+3 > len(wire) {
			t.Fatalf("a frame of %d bytes out of %d", len(frame), len(wire))
		}
		if node, err := parse(frame); node == nil && err == nil {
			t.Fatal("neither a stanza nor an error")
		}
	})
}
