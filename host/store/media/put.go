package media

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/gabriel-vasile/mimetype"

	"github.com/flynnhost/flynn/host/internal/durable"
	"github.com/flynnhost/flynn/host/message"
)

// Put stores the bytes of body; when it returns, they are on disk. Media that exists is renewed instead of being written again. A body
// of another size than the head's is refused.
func (s *Store) Put(ctx context.Context, h Head, body io.Reader) (Info, error) {
	info, err := s.put(ctx, h, body)
	if err != nil {
		return Info{}, fmt.Errorf("put media: %w", err)
	}
	return info, nil
}

func (s *Store) put(ctx context.Context, h Head, body io.Reader) (Info, error) {
	if h.Size < 0 {
		return Info{}, ErrSize
	}
	if h.Size > s.config.MaxObject {
		return Info{}, ErrTooLarge
	}
	file, err := durable.Begin(s.config.Dir)
	if err != nil {
		return Info{}, err
	}
	defer file.Discard()
	w := &intake{store: s, owner: h.Owner, file: file, sum: sha256.New()}
	defer w.release()
	if err := w.take(ctx, h.Size, body); err != nil {
		return Info{}, err
	}
	info := Info{
		Digest: hex.EncodeToString(w.sum.Sum(nil)), Size: w.size, Detected: mimetype.Detect(w.first).String(),
		Claimed: cleanType(h.Type), Name: cleanName(h.Name), Put: s.config.Now(),
	}
	return info, s.publish(file, info, h.Owner)
}

// intake writes one object before its digest is known.
type intake struct {
	store *Store
	owner message.SenderKey
	file  *durable.Draft
	sum   hash.Hash
	first []byte // for detecting the type
	size  int64
	room  int64 // reserved for it
}

// take reads body to its end.
func (w *intake) take(ctx context.Context, wants int64, body io.Reader) error {
	buffer := make([]byte, 64<<10)
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, end := body.Read(buffer)
		if n > 0 {
			if err := w.write(ctx, wants, buffer[:n]); err != nil {
				return err
			}
		}
		switch {
		case errors.Is(end, io.EOF) && wants > 0 && w.size != wants:
			return ErrSize
		case errors.Is(end, io.EOF):
			return w.grow(ctx) // an empty object needs room, too
		case end != nil:
			return end
		}
	}
}

func (w *intake) write(ctx context.Context, wants int64, p []byte) error {
	w.size += int64(len(p))
	switch {
	case wants > 0 && w.size > wants:
		return ErrSize
	case w.size > w.store.config.MaxObject:
		return ErrTooLarge
	}
	if err := w.grow(ctx); err != nil {
		return err
	}
	w.first = append(w.first, p[:min(len(p), detectFrom-len(w.first))]...)
	w.sum.Write(p)
	_, err := w.file.Write(p)
	return err
}

// step is the unit in which room for an object is reserved.
const step = 1 << 20

// grow reserves the room that the object needs so far.
func (w *intake) grow(ctx context.Context) error {
	wants := room(w.size)
	if wants <= w.room {
		return nil
	}
	if w.size > step {
		wants = room((w.size + step - 1) / step * step)
	}
	if err := w.store.claim(ctx, w.owner, wants-w.room); err != nil {
		return err
	}
	w.room = wants
	return nil
}

// release frees the reserved room; a complete object is counted separately.
func (w *intake) release() {
	w.store.mu.Lock()
	defer w.store.mu.Unlock()
	w.store.used -= w.room
	w.store.give(w.owner, -w.room)
}

// publish gives the object its name. The head comes first, so that no object is without one.
func (s *Store) publish(file *durable.Draft, info Info, owner message.SenderKey) error {
	there, owners := s.pin(info, owner)
	err := s.makeFolder(info.Digest)
	if err == nil {
		err = s.writeHead(info.Digest, head{info.Detected, info.Claimed, info.Name, owners})
	}
	if err == nil {
		err = s.name(file, info, there)
	}
	s.unpin(info, err == nil)
	return err
}

// name renames the file to its final name, or renews the existing one, unless somebody has removed that meanwhile.
func (s *Store) name(file *durable.Draft, info Info, there bool) error {
	if there {
		err := os.Chtimes(s.path(info.Digest), info.Put, info.Put)
		if !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return file.Commit(s.path(info.Digest), 0o600)
}

// maxOwners bounds the owners of one object.
const maxOwners = 64

// pin keeps Prune away from an object, and returns whether its file exists and who owns it.
func (s *Store) pin(info Info, owner message.SenderKey) (there bool, owners []message.SenderKey) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.entries[info.Digest]
	if e == nil {
		e = &entry{}
		s.entries[info.Digest] = e
	}
	e.pins++
	e.touched = info.Put
	if owner != "" && !slices.Contains(e.owners, owner) && len(e.owners) < maxOwners {
		s.own(e, -e.room)
		e.owners = append(e.owners, owner)
		s.own(e, e.room)
	}
	return e.room > 0, slices.Clone(e.owners)
}

func (s *Store) unpin(info Info, placed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.entries[info.Digest]
	e.pins--
	if placed && e.room == 0 {
		e.room = room(info.Size)
		s.used += e.room
		s.own(e, e.room)
	}
	if e.room == 0 && e.pins == 0 {
		delete(s.entries, info.Digest)
	}
}

func (s *Store) makeFolder(digest string) error {
	err := os.Mkdir(filepath.Dir(s.path(digest)), 0o700)
	if errors.Is(err, os.ErrExist) {
		return nil
	}
	if err == nil {
		err = durable.SyncDir(s.config.Dir)
	}
	return err
}

// head is the content of the file beside an object.
type head struct {
	Detected string `json:"detected"`
	Claimed  string `json:"claimed,omitempty"`
	Name     string `json:"name,omitempty"`
	// Owners are the owners whose shares it uses.
	Owners []message.SenderKey `json:"owners,omitempty"`
}

// readHead reads the head of an object. A missing or damaged one is empty.
func readHead(object string) (h head) {
	text, err := os.ReadFile(object + headSuffix)
	if err != nil || json.Unmarshal(text, &h) != nil {
		return head{}
	}
	return h
}

func (s *Store) writeHead(digest string, h head) error {
	text, err := json.Marshal(h)
	if err != nil {
		return err
	}
	return durable.WriteFile(s.path(digest)+headSuffix, text, 0o600)
}
