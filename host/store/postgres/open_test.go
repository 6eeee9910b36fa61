package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"pgregory.net/rapid"

	"github.com/flynnhost/flynn/host/buildinfo"
	"github.com/flynnhost/flynn/host/store"
	"github.com/flynnhost/flynn/host/store/postgres/postgrestest"
	"github.com/flynnhost/flynn/host/store/sqlstore"
)

func TestErrorsSayTheNextStep(t *testing.T) {
	server := postgrestest.Shared(t)
	ascii, narrow, newer := server.Database(t), server.Database(t), server.Database(t)
	server.Exec(t, "postgres", "DROP DATABASE "+ascii+"; ")
	server.Exec(t, "postgres", "CREATE DATABASE "+ascii+" ENCODING 'SQL_ASCII' LOCALE 'C' TEMPLATE template0")
	server.Exec(t, "postgres", "CREATE ROLE stranger LOGIN")
	server.Exec(t, "postgres", "CREATE ROLE reader LOGIN SUPERUSER")
	server.Exec(t, "postgres", "ALTER ROLE reader SET default_transaction_read_only = on")
	s, err := Open(t.Context(), Address{server.URL(newer), "DB"})
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	server.Exec(t, newer, "UPDATE written_by SET schema = 99, oldest = 99, version = E'v9\\x1b[31m'")
	taken := server.Database(t)
	server.Exec(t, taken, "CREATE TABLE inbox (id int)")
	as := func(user, database string) string {
		return strings.Replace(server.URL(database), "flynn@", user+":pa%20ss@", 1)
	}
	for _, c := range []struct{ name, url, want string }{
		{"a variable that is not set", "", "DB, which [store] url_env names, is not set"},
		{"blanks", " \n", "is not set"},
		{"another address", "mysql://root:pa%20ss@host/db", "holds no connection string of Postgres"},
		{"a broken address", "postgres://u:pa%20ss@host:port/db?x=\x00", "holds no connection string of Postgres"},
		{"no server", "postgres://u:pa%20ss@/d?host=/tmp/nowhere", "start the server, or correct DB"},
		{"no database", as("flynn", "nothing"), "CREATE DATABASE nothing"},
		{"another encoding", as("flynn", ascii), "its encoding is SQL_ASCII"},
		{"no rights", as("stranger", narrow), "OWNER TO stranger"},
		{"only reads", as("reader", narrow), "it is a standby"},
		{"a newer schema", as("flynn", newer), "schema version 99"},
		{"tables of another program", as("flynn", taken), "give flynn a database of its own"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := Open(t.Context(), Address{c.url, "DB"})
			if err == nil {
				s.Close()
				t.Fatal("it opens")
			}
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("error is %v, want %q", err, c.want)
			}
			if strings.Contains(err.Error(), "pa ss") || strings.Contains(err.Error(), "pa%20ss") || strings.ContainsAny(err.Error(), "\x1b\x00") {
				t.Errorf("the error has what no error may have: %q", err)
			}
		})
	}
}

// A host that was not upgraded yet starts on the schema of a newer one that only added to it, and leaves its stamp. A copy of the tables refuses it.
func TestAnOlderHostStartsBesideNewerOnes(t *testing.T) {
	server := postgrestest.Shared(t)
	name := server.Database(t)
	at := Address{server.URL(name), "DB"}
	s, err := Open(t.Context(), at)
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	server.Exec(t, name, fmt.Sprintf("ALTER TABLE halt ADD COLUMN later TEXT NOT NULL DEFAULT 'x'; UPDATE written_by SET schema = %d, version = 'v9', oldest = %d", NewestSchema()+1, NewestSchema()))
	for range 2 {
		if s, err = Open(t.Context(), at); err != nil {
			t.Fatal(err)
		}
		s.Close()
	}
	if r, err := OpenReader(t.Context(), at); err != nil {
		t.Errorf("a reader: %v", err)
	} else {
		r.Close()
	}
	if is, err := ReadStamp(t.Context(), at); err != nil || is.Schema != NewestSchema()+1 || is.Writer != "v9" {
		t.Errorf("the stamp is %+v (%v)", is, err)
	}
	for _, create := range []bool{false, true} {
		if tables, err := OpenTables(t.Context(), at, create); !errors.Is(err, sqlstore.ErrNewer) {
			tables.Close()
			t.Errorf("tables, create %v: %v", create, err)
		}
	}
}

// A migration that meets a transaction of another host in a deadlock is repeated when that one is over.
func TestAMigrationIsRepeated(t *testing.T) {
	server := postgrestest.Shared(t)
	name := server.Database(t)
	at := Address{server.URL(name), "DB"}
	s, err := Open(t.Context(), at)
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	other, err := pgx.Connect(t.Context(), at.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close(context.WithoutCancel(t.Context()))
	exec := func(statement string) {
		t.Helper()
		if _, err := other.Exec(t.Context(), statement); err != nil {
			t.Error(err)
		}
	}
	exec("UPDATE written_by SET version = 'v0'")
	exec("BEGIN")
	exec("SET LOCAL deadlock_timeout = '1h'") // so that the other one is ended
	exec("UPDATE written_by SET version = 'v1'")
	opened := make(chan error, 1)
	go func() {
		s, err := Open(t.Context(), at)
		if err == nil {
			err = s.Close()
		}
		opened <- err
	}()
	for waits := false; !waits; {
		if err := other.QueryRow(t.Context(), "SELECT EXISTS (SELECT 1 FROM pg_locks WHERE NOT granted AND pg_backend_pid() = ANY (pg_blocking_pids(pid)))").Scan(&waits); err != nil {
			t.Fatal(err)
		}
	}
	exec("SELECT pg_advisory_xact_lock(hashtextextended('flynn schema', 0))") // which the migration has
	exec("COMMIT")
	if err := <-opened; err != nil {
		t.Errorf("the store does not open: %v", err)
	}
	if is, err := ReadStamp(t.Context(), at); err != nil || is.Writer != buildinfo.Version() {
		t.Errorf("the stamp is %+v (%v)", is, err)
	}
}

func TestTwoHostsAreRefused(t *testing.T) {
	server := postgrestest.Shared(t)
	for name, url := range map[string]func(string) string{"direct": server.URL, "pooled": server.Pooler(t)} {
		t.Run(name, func(t *testing.T) {
			at := Address{url(server.Database(t)), "DB"}
			s, err := Open(t.Context(), at)
			if err != nil {
				t.Fatal(err)
			}
			if second, err := Open(t.Context(), at); !errors.Is(err, store.ErrLocked) {
				second.Close()
				t.Fatalf("a second host: %v", err)
			}
			if r, err := OpenReader(t.Context(), at); err != nil {
				t.Errorf("a reader: %v", err)
			} else {
				r.Close()
			}
			if _, err := s.Owner(t.Context(), store.UpkeepOwner); err != nil {
				t.Error(err)
			}
			s.Close()
			if s, err = Open(t.Context(), at); err != nil {
				t.Fatalf("the next host: %v", err)
			}
			s.Close()
		})
	}
}

func TestSandboxesOfOtherHosts(t *testing.T) {
	server := postgrestest.Shared(t)
	at := Address{server.URL(server.Database(t)), "DB"}
	s, err := Open(t.Context(), at)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.AddSandbox(t.Context(), store.Sandbox{Key: "k", Workspace: "w", Conversation: "c", Record: []byte("{}")}); err != nil {
		t.Fatal(err)
	}
	r, err := OpenReader(t.Context(), at)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for host, want := range map[string]bool{store.DefaultHost: false, "b": true} {
		if others, err := r.SandboxesOfOthers(t.Context(), host); err != nil || others["k"] != want || len(others) > 1 {
			t.Errorf("for host %s: %v (%v)", host, others, err)
		}
	}
}

func TestTextsAreEncodedAndDecoded(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		text := string(rapid.SliceOf(rapid.OneOf(rapid.Byte(), rapid.SampledFrom([]byte(escape+"0fa\x00\xff")))).Draw(r, "text"))
		stored := encodeText(text)
		if strings.ToValidUTF8(stored, "") != stored || strings.Contains(stored, "\x00") {
			r.Errorf("%q is stored as %q", text, stored)
		}
		if got := decodeText(stored); got != text {
			r.Errorf("%q comes back as %q", text, got)
		}
	})
}

func TestStatementsAreTranslated(t *testing.T) {
	for _, c := range []struct {
		text, want string
		args       []int
	}{
		{"SELECT ?, ?", "SELECT $1, $2", []int{0, 1}},
		{"SELECT ?3, ?1, ?3", "SELECT $1, $2, $1", []int{2, 0}},
		{"SELECT '?', 'it''s ?1', ?", "SELECT '?', 'it''s ?1', $1", []int{0}},
		{"SELECT json_extract(CAST(body AS TEXT), '$.a') WHERE x = ? /* lock */", "SELECT json_extract(utf8(body), '$.a') WHERE x = $1 FOR NO KEY UPDATE", []int{0}},
		{"a CROSS JOIN usage ON ?2", "a JOIN usage ON $1", []int{1}},
	} {
		got := translate(c.text)
		if got.text != c.want || len(got.args) != len(c.args) {
			t.Errorf("%s: %+v, want %s", c.text, got, c.want)
			continue
		}
		for i := range c.args {
			if got.args[i] != c.args[i] {
				t.Errorf("%s: %+v, want %v", c.text, got, c.args)
			}
		}
	}
}
