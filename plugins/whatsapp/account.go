package main

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"

	"go.mau.fi/whatsmeow"
	"go.mau.fi/whatsmeow/proto/waE2E"
	"go.mau.fi/whatsmeow/store"
	"go.mau.fi/whatsmeow/store/sqlstore"
	"go.mau.fi/whatsmeow/types"
	waLog "go.mau.fi/whatsmeow/util/log"
	_ "modernc.org/sqlite" // the driver "sqlite"
)

// account is what is used of the library: one device of a phone. Close ends the connection.
type account interface {
	// Own are the two names of the account, by number and by hidden id; empty while no phone is linked.
	Own() (number, hidden types.JID)
	// Handle is given every event, one after another; when it answers false to a message, WhatsApp is not acked and sends it again.
	Handle(func(event any) bool)
	Connect(ctx context.Context) error
	Send(ctx context.Context, to types.JID, m *waE2E.Message, id string) error
	Upload(ctx context.Context, body *os.File, kind whatsmeow.MediaType) (whatsmeow.UploadResponse, error)
	Download(ctx context.Context, m whatsmeow.DownloadableMessage, to *os.File) error
	// Seen marks a message as read, and shows that Flynn is typing or no longer.
	Seen(ctx context.Context, m ref, typing bool) error
	Close()
}

const sessionFile = "session.db"

// device is the account of the library, with its session in a database of the state folder.
type device struct {
	client *whatsmeow.Client
	store  *sqlstore.Container
}

// openDevice opens the session, or makes the one of a device that is not linked yet.
func openDevice(ctx context.Context, dir, name string, log *slog.Logger) (account, error) {
	path := filepath.Join(dir, sessionFile)
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600) // it holds the keys of the account
	if err != nil {
		return nil, fmt.Errorf("open session: %w", err)
	}
	f.Close()
	db, err := sql.Open("sqlite", "file:"+url.PathEscape(path)+
		"?_pragma=foreign_keys(1)&_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_txlock=immediate")
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
	store.SetOSInfo(name, [3]uint32{0, 1, 0}) // what the phone shows in its list of devices
	client := whatsmeow.NewClient(first, quiet{log})
	client.SynchronousAck, client.EnableDecryptedEventBuffer = true, true // acked after the host, and readable again if not
	client.ManualHistorySyncDownload = true                               // the past is nobody's question
	return &device{client, container}, nil
}

// Own implements account.
func (d *device) Own() (number, hidden types.JID) {
	if d.client.Store.ID == nil {
		return number, hidden
	}
	return d.client.Store.ID.ToNonAD(), d.client.Store.LID.ToNonAD()
}

// Handle implements account.
func (d *device) Handle(f func(any) bool) { d.client.AddEventHandlerWithSuccessStatus(f) }

// Connect implements account.
func (d *device) Connect(ctx context.Context) error { return d.client.ConnectContext(ctx) }

// Send implements account.
func (d *device) Send(ctx context.Context, to types.JID, m *waE2E.Message, id string) error {
	_, err := d.client.SendMessage(ctx, to, m, whatsmeow.SendRequestExtra{ID: id})
	return err
}

// Upload implements account. The file is encrypted in place.
func (d *device) Upload(ctx context.Context, body *os.File, kind whatsmeow.MediaType) (whatsmeow.UploadResponse, error) {
	return d.client.UploadReader(ctx, body, body, kind)
}

// Download implements account.
func (d *device) Download(ctx context.Context, m whatsmeow.DownloadableMessage, to *os.File) error {
	return d.client.DownloadToFile(ctx, m, to)
}

// Seen implements account.
func (d *device) Seen(ctx context.Context, m ref, typing bool) error {
	if !typing {
		return d.client.SendChatPresence(ctx, m.chat, types.ChatPresencePaused, types.ChatPresenceMediaText)
	}
	if err := d.client.MarkRead(ctx, []types.MessageID{m.id}, m.at, m.chat, m.sender); err != nil {
		return err
	}
	return d.client.SendChatPresence(ctx, m.chat, types.ChatPresenceComposing, types.ChatPresenceMediaText)
}

// Close implements account.
func (d *device) Close() {
	d.client.RemoveEventHandlers()
	d.client.Disconnect()
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
