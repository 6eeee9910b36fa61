package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/flynnhost/flynn/host/store"
)

// wantedFor is how long others look for a file that a host asks for.
const wantedFor = 2 * time.Minute

// WantFile implements store.WantedFiles.
func (s *Store) WantFile(ctx context.Context, f store.WantedFile) error {
	err := s.writer.write(ctx, func(w *writer) error {
		return w.exec("INSERT INTO wanted_files (id, host, channel, handle, sender, most, at) VALUES (?, ?, ?, ?, ?, ?, ?)",
			f.ID, w.own.Host, f.Channel, f.Handle, f.Sender, f.Most, nanos(time.Now()))
	})
	if err != nil {
		return fmt.Errorf("ask other hosts for a file: %w", err)
	}
	return nil
}

// WantedFiles implements store.WantedFiles.
func (s *Store) WantedFiles(ctx context.Context) ([]store.WantedFile, error) {
	all, err := list(ctx, s.read, func(scan func(...any) error) (f store.WantedFile, err error) {
		err = scan(&f.ID, &f.Channel, &f.Handle, &f.Sender, &f.Most)
		return f, err
	}, "SELECT id, channel, handle, sender, most FROM wanted_files WHERE state = 'wanted' AND host <> ? AND at > ? ORDER BY id", s.writer.own.Host, nanos(time.Now().Add(-wantedFor)))
	if err != nil {
		return nil, fmt.Errorf("list the files that other hosts ask for: %w", err)
	}
	return all, nil
}

// TakeFile implements store.WantedFiles.
func (s *Store) TakeFile(ctx context.Context, id string) error {
	err := s.writer.write(ctx, func(w *writer) error {
		return w.changeOne("UPDATE wanted_files SET state = 'taken' WHERE id = ? AND state = 'wanted'", id)
	})
	if err != nil {
		return fmt.Errorf("look for a file that another host asks for: %w", err)
	}
	return nil
}

// AnswerFile implements store.WantedFiles.
func (s *Store) AnswerFile(ctx context.Context, id string, f store.FoundFile) error {
	err := s.writer.write(ctx, func(w *writer) error {
		return w.exec("UPDATE wanted_files SET state = ?, digest = ?, name = ?, type = ?, size = ?, problem = ? WHERE id = ?",
			store.FileAnswered, f.Digest, f.Name, f.Type, f.Size, f.Problem, id)
	})
	if err != nil {
		return fmt.Errorf("answer another host that asks for a file: %w", err)
	}
	return nil
}

// FoundFile implements store.WantedFiles.
func (s *Store) FoundFile(ctx context.Context, id string) (f store.FoundFile, err error) {
	err = s.read.Row(ctx, "SELECT state, digest, name, type, size, problem FROM wanted_files WHERE id = ?", id).Scan(&f.State, &f.Digest, &f.Name, &f.Type, &f.Size, &f.Problem)
	if errors.Is(err, sql.ErrNoRows) {
		err = store.ErrNotFound
	}
	if err != nil {
		return f, fmt.Errorf("read what other hosts say of a file: %w", err)
	}
	return f, nil
}

// ForgetFile implements store.WantedFiles.
func (s *Store) ForgetFile(ctx context.Context, id string) error {
	if err := s.writer.write(ctx, func(w *writer) error { return w.exec("DELETE FROM wanted_files WHERE id = ?", id) }); err != nil {
		return fmt.Errorf("end a request for a file: %w", err)
	}
	return nil
}
