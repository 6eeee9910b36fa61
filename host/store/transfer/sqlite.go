package transfer

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/flynnhost/flynn/host/store/database"
	"github.com/flynnhost/flynn/host/store/sqlite"
)

// sqliteSide is a folder.
type sqliteSide struct {
	db       *sqlite.Tables
	tx       *sql.Tx
	triggers []string // dropped while rows are written, which they would write again
}

func openSQLite(ctx context.Context, at database.Location, create bool) (*sqliteSide, error) {
	db, err := sqlite.OpenTables(ctx, at.Dir, create)
	if err != nil {
		return nil, err
	}
	return &sqliteSide{db: db}, nil
}

func (s *sqliteSide) query(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	if s.tx != nil {
		return s.tx.QueryContext(ctx, query, args...)
	}
	return s.db.QueryContext(ctx, query, args...)
}

func (s *sqliteSide) texts(ctx context.Context, query string, args ...any) (all []string, err error) {
	rows, err := s.query(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var text string
		if err := rows.Scan(&text); err != nil {
			return nil, err
		}
		all = append(all, text)
	}
	return all, rows.Err()
}

func (s *sqliteSide) tables(ctx context.Context) ([]string, error) {
	return s.texts(ctx, `SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite\_%' ESCAPE '\'
		AND name NOT IN ('notes_text', 'said_text') AND name NOT LIKE '%\_text\_%' ESCAPE '\' ORDER BY name`)
}

func (s *sqliteSide) columns(ctx context.Context, table string) ([]string, error) {
	return s.texts(ctx, "SELECT name FROM pragma_table_info(?) ORDER BY name", table)
}

func (s *sqliteSide) each(ctx context.Context, table string, columns []string, row func([]any) error) error {
	types, err := s.texts(ctx, "SELECT type FROM pragma_table_info(?) ORDER BY name", table)
	if err != nil {
		return err
	}
	rows, err := s.query(ctx, "SELECT "+quoted(columns)+" FROM "+table)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		values, into := make([]any, len(columns)), make([]any, len(columns))
		for i := range values {
			into[i] = &values[i]
		}
		if err := rows.Scan(into...); err != nil {
			return err
		}
		for i, v := range values { // a default of a BLOB may be a text
			if text, ok := v.(string); ok && types[i] == "BLOB" {
				values[i] = []byte(text)
			}
		}
		if err := row(values); err != nil {
			return err
		}
	}
	return rows.Err()
}

func (s *sqliteSide) sequence(ctx context.Context, table string) (int64, error) {
	found, err := s.query(ctx, "SELECT seq FROM sqlite_sequence WHERE name = ?", table)
	if err != nil {
		return 0, err
	}
	defer found.Close()
	var last int64
	if found.Next() {
		err = found.Scan(&last)
	}
	return last, errors.Join(err, found.Err())
}

func (s *sqliteSide) begin(ctx context.Context) (err error) {
	if s.tx, err = s.db.BeginTx(ctx, nil); err != nil {
		return err
	}
	if s.triggers, err = s.texts(ctx, "SELECT sql FROM sqlite_schema WHERE type = 'trigger'"); err != nil {
		return err
	}
	names, err := s.texts(ctx, "SELECT name FROM sqlite_schema WHERE type = 'trigger'")
	if err != nil {
		return err
	}
	for _, name := range names {
		if _, err := s.tx.ExecContext(ctx, "DROP TRIGGER "+name); err != nil {
			return err
		}
	}
	_, err = s.tx.ExecContext(ctx, "DELETE FROM "+hosts)
	return err
}

func (s *sqliteSide) fill(ctx context.Context, table string, columns []string, next func() ([]any, error)) error {
	insert, err := s.tx.PrepareContext(ctx, "INSERT INTO "+table+" ("+quoted(columns)+") VALUES (?"+strings.Repeat(", ?", len(columns)-1)+")")
	if err != nil {
		return err
	}
	defer insert.Close()
	for {
		row, err := next()
		if err != nil || row == nil {
			return err
		}
		if _, err := insert.ExecContext(ctx, row...); err != nil {
			return err
		}
	}
}

func (s *sqliteSide) setSequence(ctx context.Context, table string, last int64) error {
	r, err := s.tx.ExecContext(ctx, "UPDATE sqlite_sequence SET seq = ? WHERE name = ?", last, table)
	if err != nil {
		return err
	}
	if n, err := r.RowsAffected(); err != nil || n > 0 {
		return err
	}
	var counts bool
	err = s.tx.QueryRowContext(ctx, "SELECT sql LIKE '%AUTOINCREMENT%' FROM sqlite_schema WHERE type = 'table' AND name = ?", table).Scan(&counts)
	if err == nil && counts {
		_, err = s.tx.ExecContext(ctx, "INSERT INTO sqlite_sequence (name, seq) VALUES (?, ?)", table, last)
	}
	return err
}

func (s *sqliteSide) commit(ctx context.Context) error {
	for _, text := range append(s.triggers, "INSERT INTO notes_text (notes_text) VALUES ('rebuild')", "INSERT INTO said_text (said_text) VALUES ('rebuild')") {
		if _, err := s.tx.ExecContext(ctx, text); err != nil {
			return fmt.Errorf("make the triggers again: %w", err)
		}
	}
	err := s.tx.Commit()
	s.tx = nil
	return err
}

func (s *sqliteSide) close() error {
	if s.tx != nil {
		_ = s.tx.Rollback()
	}
	return s.db.Close()
}

// quoted returns a list of columns.
func quoted(columns []string) string { return `"` + strings.Join(columns, `", "`) + `"` }
