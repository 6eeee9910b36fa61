package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"time"

	"go.mau.fi/libsignal/logger"
	"go.mau.fi/whatsmeow"
	"go.mau.fi/whatsmeow/proto/waE2E"
	"go.mau.fi/whatsmeow/store"
	"go.mau.fi/whatsmeow/store/sqlstore"
	"go.mau.fi/whatsmeow/types"
	"go.mau.fi/whatsmeow/types/events"
	waLog "go.mau.fi/whatsmeow/util/log"
	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/flynnhost/flynn/sdk/cache"
)

const (
	sessionFile = "session.db"
	goodbye     = 2 * time.Second
)

// device is what is used of the library: one device of a phone, with its session in a database of the state folder.
type device struct {
	client *whatsmeow.Client
	store  *sqlstore.Container
	cancel context.CancelFunc // ends the connection and every try to get one back

	byHidden cache.Map[types.JID, bool] // groups whose members use hidden ids, as far as known

	mu             sync.Mutex
	number, hidden types.JID // copies, since the library changes its own without a lock
}

// openDevice opens the session, or makes the one of a device that is not linked yet.
func openDevice(ctx context.Context, dir, name string, log *slog.Logger) (*device, error) {
	path := filepath.Join(dir, sessionFile)
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600) // it holds the keys of the account
	if err != nil {
		return nil, fmt.Errorf("open session: %w", err)
	}
	f.Close()
	db, err := sql.Open("sqlite", "file:"+url.PathEscape(path)+
		"?_pragma=foreign_keys(1)&_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=fullfsync(1)&_txlock=immediate")
	if err != nil {
		return nil, fmt.Errorf("open session: %w", err)
	}
	container := sqlstore.NewWithDB(db, "sqlite3", quiet{log})
	if err := container.Upgrade(ctx); err != nil {
		_ = container.Close()
		return nil, fmt.Errorf("open session: %w", err)
	}
	first, err := container.GetFirstDevice(ctx)
	if err != nil {
		_ = container.Close()
		return nil, fmt.Errorf("read session: %w", err)
	}
	store.SetOSInfo(name, [3]uint32{0, 1, 0}) // the name in the phone's list of devices
	client := whatsmeow.NewClient(first, quiet{log})
	client.SynchronousAck, client.EnableDecryptedEventBuffer = true, true // acked after the host, and readable again if not
	client.ManualHistorySyncDownload = true                               // older messages are not used
	d := &device{client: client, store: container, cancel: func() {}, byHidden: cache.Map[types.JID, bool]{Most: maxLast}}
	d.belong(first.GetJID(), first.GetLID())
	return d, nil
}

// Own returns the account's two ids, its number and its hidden id. They are empty while no phone is linked.
func (d *device) Own() (number, hidden types.JID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.number, d.hidden
}

func (d *device) belong(number, hidden types.JID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.number, d.hidden = number.ToNonAD(), hidden.ToNonAD()
}

// Handle calls f with every event, one after another. A message for which f returns false is not acked, and WhatsApp sends it again.
func (d *device) Handle(f func(event any) bool) {
	d.client.AddEventHandlerWithSuccessStatus(func(event any) bool {
		switch e := event.(type) {
		case *events.PairSuccess:
			d.belong(e.ID, e.LID)
		case *events.Connected:
			if _, hidden := d.Own(); hidden.IsEmpty() { // the session is older than these ids
				d.belong(d.client.Store.GetJID(), d.client.Store.GetLID())
			}
		}
		return f(event)
	})
}

// Connect begins the connection, which lives until Close, even if ctx ends before.
func (d *device) Connect(ctx context.Context) error {
	var life context.Context
	life, d.cancel = context.WithCancel(context.WithoutCancel(ctx))
	defer context.AfterFunc(ctx, d.cancel)()
	return d.client.ConnectContext(life)
}

// Send sends a message and waits until the server has it.
func (d *device) Send(ctx context.Context, to types.JID, m *waE2E.Message, id string) error {
	_, err := d.client.SendMessage(ctx, to, m, whatsmeow.SendRequestExtra{ID: id})
	return err
}

// Upload uploads a medium. The file is encrypted in place.
func (d *device) Upload(ctx context.Context, body *os.File, kind whatsmeow.MediaType) (whatsmeow.UploadResponse, error) {
	return d.client.UploadReader(ctx, body, body, kind)
}

// Download gets a medium and decrypts it.
func (d *device) Download(ctx context.Context, m whatsmeow.DownloadableMessage, to *os.File) error {
	return d.client.DownloadToFile(ctx, m, to)
}

// Seen marks a message as read, and shows that Flynn is typing or no longer.
func (d *device) Seen(ctx context.Context, m ref, typing bool) error {
	if !typing {
		return d.client.SendChatPresence(ctx, m.chat, types.ChatPresencePaused, types.ChatPresenceMediaText)
	}
	if err := d.client.MarkRead(ctx, []types.MessageID{m.id}, m.at, m.chat, d.NameIn(ctx, m.chat, m.sender)); err != nil {
		return err
	}
	return d.client.SendChatPresence(ctx, m.chat, types.ChatPresenceComposing, types.ChatPresenceMediaText)
}

// NameIn returns the id by which a message in a chat names a person. In most groups that is the hidden id, and WhatsApp silently drops a message
// that names a member by the number.
func (d *device) NameIn(ctx context.Context, chat, person types.JID) types.JID {
	if chat.Server != types.GroupServer || person.Server != types.DefaultUserServer || !d.goesByHidden(ctx, chat) {
		return person
	}
	if number, hidden := d.Own(); person == number && !hidden.IsEmpty() {
		return hidden
	}
	if hidden, err := d.client.Store.LIDs.GetLIDForPN(ctx, person); err == nil && !hidden.IsEmpty() {
		return hidden
	}
	return person
}

func (d *device) goesByHidden(ctx context.Context, group types.JID) bool {
	if hidden, known := d.byHidden.Get(group); known {
		return hidden
	}
	info, err := d.client.GetGroupInfo(ctx, group)
	if err != nil {
		return false
	}
	hidden := info.AddressingMode == types.AddressingModeLID
	d.byHidden.Set(group, hidden, 0)
	return hidden
}

// Forget removes the session, so that the next device is a new one. The library does the same when the phone has removed this one, but
// may be closed before it is done.
func (d *device) Forget(ctx context.Context) error {
	list, err := d.store.GetAllDevices(ctx)
	for _, old := range list {
		err = errors.Join(err, d.store.DeleteDevice(ctx, old))
	}
	return err
}

// Close ends the connection. It waits for a pending dial at most for goodbye.
func (d *device) Close() {
	d.client.RemoveEventHandlers()
	patience := time.AfterFunc(goodbye, d.cancel)
	d.client.Disconnect()
	patience.Stop()
	d.cancel()
	_ = d.store.Close()
}

// quiet passes on the library's warnings only: below them it writes whole stanzas, with codes for linking among them.
type quiet struct{ log *slog.Logger }

// Warnf implements waLog.Logger.
func (q quiet) Warnf(format string, args ...any) { q.log.Warn(fmt.Sprintf(format, args...)) }

// Errorf implements waLog.Logger.
func (q quiet) Errorf(format string, args ...any) { q.log.Error(fmt.Sprintf(format, args...)) }

// Infof implements waLog.Logger.
func (q quiet) Infof(string, ...any) {}

// Debugf implements waLog.Logger.
func (q quiet) Debugf(string, ...any) {}

// Sub implements waLog.Logger.
func (q quiet) Sub(module string) waLog.Logger { return quiet{q.log.With("part", module)} }

// silence keeps the encryption library from writing to standard output. whatsmeow logs what is relevant.
func silence() {
	var l logger.Loggable = silent{}
	logger.Setup(&l)
}

// silent implements logger.Loggable.
type silent struct{}

func (silent) Debug(_, _ string)   {}
func (silent) Info(_, _ string)    {}
func (silent) Warning(_, _ string) {}
func (silent) Error(_, _ string)   {}
func (silent) Configure(string)    {}
