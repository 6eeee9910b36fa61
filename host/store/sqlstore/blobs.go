package sqlstore

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"slices"
	"time"

	"github.com/flynnhost/flynn/host/internal/jsonform"
	"github.com/flynnhost/flynn/host/store"
)

const (
	// blobChunk is the number of bytes of a blob in one row, and in one write.
	blobChunk = 256 << 10
	// renewAfter is the age at which a blob that is asked for counts as new. It is less than that at which blobs are deleted.
	renewAfter = 6 * time.Hour
)

// MissingBlobs implements store.Blobs.
func (s *Store) MissingBlobs(ctx context.Context, digests []string) ([]string, error) {
	ids, err := jsonform.Marshal(digests)
	if err != nil || len(digests) == 0 {
		return nil, err
	}
	const there = "digest IN (SELECT value FROM json_each(CAST(?1 AS TEXT))) AND complete"
	found, err := list(ctx, s.read, scanText[string], "SELECT digest FROM blobs WHERE "+there, string(ids))
	if err == nil && len(found) > 0 {
		now := time.Now()
		err = s.writer.write(ctx, func(w *writer) error {
			return w.exec("UPDATE blobs SET used = ?2 WHERE used < ?3 AND "+there, string(ids), nanos(now), nanos(now.Add(-renewAfter)))
		})
	}
	if err != nil {
		return nil, fmt.Errorf("look for blobs: %w", err)
	}
	return slices.DeleteFunc(slices.Clone(digests), func(digest string) bool { return slices.Contains(found, digest) }), nil
}

// PutBlob implements store.Blobs.
func (s *Store) PutBlob(ctx context.Context, digest string, body io.Reader) error {
	if err := s.putBlob(ctx, digest, body); err != nil {
		return fmt.Errorf("write blob %.12s: %w", digest, err)
	}
	return nil
}

func (s *Store) putBlob(ctx context.Context, digest string, body io.Reader) error {
	missing, err := s.MissingBlobs(ctx, []string{digest})
	if err != nil || len(missing) == 0 {
		return err
	}
	err = s.writer.write(ctx, func(w *writer) error {
		var held int64
		if err := w.row("SELECT coalesce(sum(size), 0) FROM blobs", nil, &held); err != nil {
			return err
		}
		if held >= store.MaxBlobs {
			return store.ErrBlobRoom
		}
		return w.exec(`INSERT INTO blobs (digest, size, used, complete) VALUES (?, 0, ?, FALSE) ON CONFLICT (digest) DO UPDATE SET used = excluded.used`, digest, nanos(time.Now()))
	})
	if err != nil {
		return err
	}
	sum, size, chunk := sha256.New(), int64(0), make([]byte, blobChunk)
	for n := 0; ; n++ {
		read, end := io.ReadFull(body, chunk)
		if end != nil && !errors.Is(end, io.EOF) && !errors.Is(end, io.ErrUnexpectedEOF) {
			return end
		}
		part := append([]byte{}, chunk[:read]...) // a write may outlive the call
		sum.Write(part)
		if size += int64(read); size > store.MaxBlob {
			return errors.Join(store.ErrBlobSize, s.DropBlob(ctx, digest))
		}
		last := end != nil
		if last && hex.EncodeToString(sum.Sum(nil)) != digest {
			return errors.Join(errors.New("its bytes do not have that digest"), s.DropBlob(ctx, digest))
		}
		err := s.writer.write(ctx, func(w *writer) error {
			err := w.exec("INSERT INTO blob_chunks (digest, n, bytes) VALUES (?, ?, ?) ON CONFLICT (digest, n) DO UPDATE SET bytes = excluded.bytes", digest, n, part)
			if err != nil || !last {
				return err
			}
			return w.changeOne("UPDATE blobs SET complete = TRUE, size = ?, used = ? WHERE digest = ?", size, nanos(time.Now()), digest)
		})
		if err != nil || last {
			return err
		}
	}
}

// Blob implements store.Blobs.
func (s *Store) Blob(ctx context.Context, digest string) (io.Reader, error) {
	r := &blobReader{ctx: ctx, store: s, digest: digest, sum: sha256.New()}
	err := s.read.Row(ctx, "SELECT size FROM blobs WHERE digest = ? AND complete", digest).Scan(&r.left)
	if errors.Is(err, sql.ErrNoRows) {
		err = store.ErrNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("read blob %.12s: %w", digest, err)
	}
	return r, nil
}

// blobReader reads a blob chunk by chunk.
type blobReader struct {
	ctx    context.Context
	store  *Store
	digest string
	left   int64
	n      int
	chunk  []byte
	sum    hash.Hash
	end    error
}

// Read implements io.Reader.
func (r *blobReader) Read(p []byte) (int, error) {
	for len(r.chunk) == 0 && r.end == nil {
		r.end = r.next()
	}
	if len(r.chunk) == 0 {
		return 0, r.end
	}
	n := copy(p, r.chunk)
	r.chunk = r.chunk[n:]
	return n, nil
}

func (r *blobReader) next() error {
	if r.left == 0 {
		if hex.EncodeToString(r.sum.Sum(nil)) == r.digest {
			return io.EOF
		}
		return r.damaged()
	}
	err := r.store.read.Row(r.ctx, "SELECT bytes FROM blob_chunks WHERE digest = ? AND n = ?", r.digest, r.n).Scan(&r.chunk)
	switch {
	case errors.Is(err, sql.ErrNoRows), err == nil && (len(r.chunk) == 0 || int64(len(r.chunk)) > r.left):
		return r.damaged()
	case err != nil:
		return fmt.Errorf("read blob %.12s: %w", r.digest, err)
	}
	r.n++
	r.left -= int64(len(r.chunk))
	r.sum.Write(r.chunk)
	return nil
}

// damaged deletes the blob.
func (r *blobReader) damaged() error {
	r.chunk = nil
	return errors.Join(fmt.Errorf("read blob %.12s: %w", r.digest, store.ErrBlobDamaged), r.store.DropBlob(r.ctx, r.digest))
}

// DropBlob implements store.Blobs.
func (s *Store) DropBlob(ctx context.Context, digest string) error {
	if err := s.writer.write(ctx, func(w *writer) error { return w.dropBlobs("digest = ?", digest) }); err != nil {
		return fmt.Errorf("delete blob %.12s: %w", digest, err)
	}
	return nil
}

// dropBlobs deletes the blobs that a condition selects.
func (w *writer) dropBlobs(which string, args ...any) error {
	err := w.exec("DELETE FROM blob_chunks WHERE digest IN (SELECT digest FROM blobs WHERE "+which+")", args...)
	if err == nil {
		err = w.exec("DELETE FROM blobs WHERE "+which, args...)
	}
	return err
}

// pruneBlobs deletes the blobs that were last used before a time and that neither a part nor an unsent reply names, and old requests for files.
func (s *Store) pruneBlobs(ctx context.Context, upTo time.Time) (int, error) {
	if upTo.IsZero() {
		return 0, nil
	}
	old, err := list(ctx, s.read, scanText[string], `SELECT digest FROM blobs b WHERE used < ? AND NOT EXISTS (SELECT 1 FROM parts p WHERE instr(CAST(p.body AS TEXT), b.digest) > 0)
		AND NOT EXISTS (SELECT 1 FROM outbox o WHERE o.state IN ('pending', 'sending') AND instr(CAST(o.reply AS TEXT), b.digest) > 0)`, nanos(upTo))
	if err == nil {
		err = s.writer.write(ctx, owned(store.UpkeepOwner, func(w *writer) error {
			return w.exec("DELETE FROM wanted_files WHERE at < ?", nanos(upTo))
		}))
	}
	for _, digest := range old {
		if err == nil {
			err = s.writer.write(ctx, owned(store.UpkeepOwner, func(w *writer) error {
				return w.dropBlobs("digest = ? AND used < ?", digest, nanos(upTo))
			}))
		}
	}
	return len(old), err
}
