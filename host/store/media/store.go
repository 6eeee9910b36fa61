package media

import (
	"cmp"
	"context"
	"encoding/hex"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/flynnhost/flynn/host/internal/durable"
	"github.com/flynnhost/flynn/host/message"
)

// Config configures a Store. Dir is required, and only the store may use it.
type Config struct {
	Dir       string        // created if it does not exist
	MaxObject int64         // bytes of one object; 0 means 64 MiB
	MaxTotal  int64         // bytes of all, by their room on disk; 0 means 2 GiB
	MaxAge    time.Duration // age at which unneeded media is removed; 0 means 30 days
	// Share returns how many bytes the media of one owner may take, 0 for any number, and the error if that is not enough. Media that
	// several owners have stored counts for each of them. Nil means no bound.
	Share func(owner message.SenderKey) (most int64, why error)
	// Keep returns the digests that are needed, whatever their age. If it fails, everything is kept.
	Keep func(context.Context) (map[string]bool, error)
	Log  *slog.Logger
	Now  func() time.Time // nil means time.Now
}

// Grace is how long media stays after the last Put or Touch, needed or not. The holder of a digest has that long to report it through
// Keep.
const Grace = time.Hour

// Store stores media. Its methods may be called by several goroutines, but only one process may have it open.
type Store struct {
	config Config
	log    *slog.Logger

	mu      sync.Mutex // guards the fields below; names in the folder disappear only under it
	entries map[string]*entry
	used    int64                           // room of the entries and of unfinished writes
	owned   map[message.SenderKey]int64     // the same by owner, "" for media without an owner
	full    map[message.SenderKey]time.Time // when an owner's share, or with "" the store, last was full and nothing could be removed
}

// entry is one object.
type entry struct {
	room    int64 // 0 without a file
	touched time.Time
	pins    int // Puts that are about to create its file
	owners  []message.SenderKey
}

// New opens the store and removes the remains of a crash.
func New(c Config) (*Store, error) {
	c.MaxObject = cmp.Or(c.MaxObject, 64<<20)
	c.MaxTotal = cmp.Or(c.MaxTotal, 2<<30)
	c.MaxAge = cmp.Or(c.MaxAge, 30*24*time.Hour)
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Keep == nil {
		c.Keep = func(context.Context) (map[string]bool, error) { return nil, nil }
	}
	if c.Share == nil {
		c.Share = func(message.SenderKey) (int64, error) { return 0, nil }
	}
	s := &Store{config: c, log: c.Log.With("component", "media"), entries: map[string]*entry{}, owned: map[message.SenderKey]int64{}, full: map[message.SenderKey]time.Time{}}
	if err := os.MkdirAll(c.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("open the media store: %w", err)
	}
	if err := s.scan(); err != nil {
		return nil, fmt.Errorf("open the media store: %w", err)
	}
	return s, nil
}

// headSuffix is the suffix of the file with an object's head.
const headSuffix = ".json"

// scan reads the folder.
func (s *Store) scan() error {
	return filepath.WalkDir(s.config.Dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name := d.Name()
		switch digest, isHead := strings.CutSuffix(name, headSuffix); {
		case strings.HasPrefix(name, durable.DraftPrefix):
			return os.Remove(path)
		case !validDigest(digest) || s.path(digest) != strings.TrimSuffix(path, headSuffix) || !d.Type().IsRegular():
			s.log.Warn("unknown file in the media store", "path", path)
			return nil
		case isHead:
			return s.scanHead(digest)
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		e := &entry{room: room(info.Size()), touched: info.ModTime()}
		s.entries[name], s.used = e, s.used+e.room
		s.own(e, e.room)
		return nil
	})
}

// scanHead reads the owners of an object that was scanned before, and removes a head without an object.
func (s *Store) scanHead(digest string) error {
	e := s.entries[digest]
	if e == nil {
		return os.Remove(s.path(digest) + headSuffix)
	}
	s.own(e, -e.room)
	e.owners = readHead(s.path(digest)).Owners
	s.own(e, e.room)
	return nil
}

// block is the smallest room of a file on most disks.
const block = 4 << 10

// room returns the room of an object and its head. It also bounds the number of objects.
func room(size int64) int64 { return (size+block-1)/block*block + block }

// validDigest excludes digests that could be paths.
func validDigest(s string) bool {
	if len(s) != 64 || strings.ToLower(s) != s {
		return false
	}
	_, err := hex.DecodeString(s)
	return err == nil
}

func (s *Store) path(digest string) string { return filepath.Join(s.config.Dir, digest[:2], digest) }
