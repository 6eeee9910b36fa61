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

// Config configures a Store. Dir is required; it is the store's alone.
type Config struct {
	Dir       string        // is made when it does not exist
	MaxObject int64         // bytes of one; 64 MiB
	MaxTotal  int64         // bytes of all, by the room that they take on disk; 2 GiB
	MaxAge    time.Duration // what nobody needs is removed when it is older; 30 days
	// Share returns how many bytes the media of one owner may take, 0 for any number, and what to say where that is too little. Media that
	// several owners have put counts for each of them. Nil is no bound.
	Share func(owner message.SenderKey) (most int64, why error)
	// Keep returns the digests that are needed, whatever their age. An error keeps everything.
	Keep func(context.Context) (map[string]bool, error)
	Log  *slog.Logger
	Now  func() time.Time // time.Now
}

// Grace is how long media stay from the last Put or Touch on, needed or not: the holder of a digest has that long to make it known
// to Keep.
const Grace = time.Hour

// Store keeps media. Its methods may be called from many goroutines, but only one process may have it open.
type Store struct {
	config Config
	log    *slog.Logger

	mu      sync.Mutex // guards the following, and names in the folder disappear only under it
	entries map[string]*entry
	used    int64                           // room of the entries and of what is being written
	owned   map[message.SenderKey]int64     // the same by owner, "" for what is nobody's
	full    map[message.SenderKey]time.Time // when the share of an owner, or with "" the store, last was full and nothing could go
}

// entry is one object.
type entry struct {
	room    int64 // 0 while it has no file
	touched time.Time
	pins    int // Puts that are about to give it its file
	owners  []message.SenderKey
}

// New opens the store and sweeps what a crash has left.
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

// headSuffix ends the name of the file that holds an object's Head.
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
			s.log.Warn("found a foreign file in the media store", "path", path)
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

// scanHead reads whose an object is, which was scanned before, and removes a head without its object.
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

// block is the least room that a file takes on most disks.
const block = 4 << 10

// room is what an object and its head take. It keeps the number of objects bounded as well.
func room(size int64) int64 { return (size+block-1)/block*block + block }

// validDigest also keeps digests from being paths.
func validDigest(s string) bool {
	if len(s) != 64 || strings.ToLower(s) != s {
		return false
	}
	_, err := hex.DecodeString(s)
	return err == nil
}

func (s *Store) path(digest string) string { return filepath.Join(s.config.Dir, digest[:2], digest) }
