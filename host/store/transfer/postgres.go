package transfer

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/flynnhost/flynn/host/store/database"
	"github.com/flynnhost/flynn/host/store/postgres"
)

// postgresSide is a database.
type postgresSide struct {
	db    *postgres.Tables
	tx    pgx.Tx
	flags map[string]bool // the columns that are BOOLEAN, as table.column; SQLite has numbers
}

func openPostgres(ctx context.Context, at database.Location, create bool) (*postgresSide, error) {
	db, err := postgres.OpenTables(ctx, postgres.Address{URL: string(at.URL), Name: at.Variable}, create)
	if err != nil {
		return nil, err
	}
	s := &postgresSide{db: db, flags: map[string]bool{}}
	names, err := s.texts(ctx, "SELECT table_name || '.' || column_name FROM information_schema.columns WHERE table_schema = current_schema() AND data_type = 'boolean'")
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		s.flags[name] = true
	}
	return s, nil
}

func (s *postgresSide) texts(ctx context.Context, query string, args ...any) ([]string, error) {
	rows, err := s.db.Query(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

func (s *postgresSide) tables(ctx context.Context) ([]string, error) {
	return s.texts(ctx, `SELECT relname::text FROM pg_class WHERE relnamespace = current_schema()::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition
		ORDER BY relname COLLATE "C"`)
}

// columns leaves out the columns that only Postgres has: those of generated words, and of hosts that share a database.
func (s *postgresSide) columns(ctx context.Context, table string) ([]string, error) {
	return s.texts(ctx, `SELECT column_name::text FROM information_schema.columns WHERE table_schema = current_schema() AND table_name = $1
		AND is_generated = 'NEVER' AND NOT (table_name = 'hosts' AND column_name IN ('moves', 'commits', 'seen')) ORDER BY column_name COLLATE "C"`, table)
}

func (s *postgresSide) each(ctx context.Context, table string, columns []string, row func([]any) error) error {
	rows, err := s.db.Query(ctx, "SELECT "+quoted(columns)+" FROM "+table)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		values, err := rows.Values()
		if err != nil {
			return err
		}
		for i, v := range values {
			switch v := v.(type) {
			case string:
				values[i] = postgres.DecodeText(v)
			case bool:
				values[i] = int64(0)
				if v {
					values[i] = int64(1)
				}
			}
		}
		if err := row(values); err != nil {
			return err
		}
	}
	return rows.Err()
}

func (s *postgresSide) sequence(ctx context.Context, table string) (last int64, err error) {
	name, err := s.sequenceOf(ctx, table)
	if err != nil || name == "" {
		return 0, err
	}
	err = s.db.QueryRow(ctx, "SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM "+name).Scan(&last)
	return last, err
}

func (s *postgresSide) sequenceOf(ctx context.Context, table string) (name string, err error) {
	err = s.db.QueryRow(ctx, `SELECT coalesce(max(pg_get_serial_sequence(table_name, column_name)), '') FROM information_schema.columns
		WHERE table_schema = current_schema() AND table_name = $1 AND is_identity = 'YES'`, table).Scan(&name)
	return name, err
}

func (s *postgresSide) begin(ctx context.Context) (err error) {
	if s.tx, err = s.db.Begin(ctx); err != nil {
		return err
	}
	for _, name := range tables { // triggers would write rows again that are copied
		if _, err := s.tx.Exec(ctx, "ALTER TABLE "+name+" DISABLE TRIGGER USER"); err != nil {
			return err
		}
	}
	_, err = s.tx.Exec(ctx, "DELETE FROM "+hosts)
	return err
}

func (s *postgresSide) fill(ctx context.Context, table string, columns []string, next func() ([]any, error)) error {
	_, err := s.tx.CopyFrom(ctx, pgx.Identifier{table}, columns, pgx.CopyFromFunc(func() ([]any, error) {
		row, err := next()
		if err != nil || row == nil {
			return nil, err
		}
		out := make([]any, len(row))
		for i, v := range row {
			out[i] = v
			if text, ok := v.(string); ok {
				out[i] = postgres.EncodeText(text)
			}
			if n, ok := v.(int64); ok && s.flags[table+"."+columns[i]] {
				out[i] = n != 0
			}
		}
		return out, nil
	}))
	return err
}

func (s *postgresSide) setSequence(ctx context.Context, table string, last int64) error {
	name, err := s.sequenceOf(ctx, table)
	if err != nil || name == "" {
		return err
	}
	_, err = s.tx.Exec(ctx, fmt.Sprintf("ALTER SEQUENCE %s RESTART WITH %d", name, last+1)) // unlike setval, it is undone with the transaction
	return err
}

func (s *postgresSide) commit(ctx context.Context) error {
	// A home that has never been started has its row, too, so that it can be locked.
	if _, err := s.tx.Exec(ctx, "INSERT INTO hosts (id, incarnation, epoch) VALUES ('home', '', 0) ON CONFLICT DO NOTHING"); err != nil {
		return err
	}
	for _, name := range tables {
		if _, err := s.tx.Exec(ctx, "ALTER TABLE "+name+" ENABLE TRIGGER USER"); err != nil {
			return err
		}
	}
	err := s.tx.Commit(ctx)
	s.tx = nil
	return err
}

func (s *postgresSide) close() error {
	if s.tx != nil {
		_ = s.tx.Rollback(context.Background())
	}
	return s.db.Close()
}
