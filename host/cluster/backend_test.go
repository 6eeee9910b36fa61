package cluster

import (
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/flynnhost/flynn/host/store"
	"github.com/flynnhost/flynn/host/store/sqlite"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// backend is a store that several hosts open.
type backend struct {
	join func(host string) store.Store
	// advance lets time pass for the leases.
	advance func(time.Duration)
	// save keeps the state, and restore returns to it.
	save func() (restore func())
	// failedOver does what a store has to do after acknowledged commits were lost: it extends all leases and fences all incarnations out.
	failedOver func(grace time.Duration, fences bool)
	// lower plants a fault: it takes back the last change of a key's epoch.
	lower func(key store.OwnerKey)
}

// modelTables are the tables that the model uses.
var modelTables = []string{"hosts", "owners", "signals", "control", "steps", "outbox", "inbox", "turns", "sessions"}

// inMemory returns a folder whose files need not reach a disk, because no test here crashes the machine.
func inMemory(t *testing.T) string {
	if runtime.GOOS != "linux" {
		return t.TempDir()
	}
	dir, err := os.MkdirTemp("/dev/shm", "flynn-cluster-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func sqliteBackend(t *testing.T) func(*rapid.T) backend {
	root := inMemory(t)
	made, err := sqlite.Open(t.Context(), filepath.Join(root, "empty"))
	if err != nil {
		t.Fatal(err)
	}
	if err := made.Close(); err != nil {
		t.Fatal(err)
	}
	empty, err := os.ReadFile(filepath.Join(root, "empty", "flynn.db"))
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	return func(r *rapid.T) backend {
		n++
		dir := filepath.Join(root, fmt.Sprint(n))
		path := filepath.Join(dir, "flynn.db")
		check := func(err error) {
			if err != nil {
				r.Fatal(err)
			}
		}
		check(os.Mkdir(dir, 0o700))
		r.Cleanup(func() { os.RemoveAll(dir) })
		check(os.WriteFile(path, empty, 0o600))
		db, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(5000)&_pragma=journal_mode(WAL)")
		check(err)
		db.SetMaxOpenConns(1)
		r.Cleanup(func() { db.Close() })
		exec := func(query string, args ...any) {
			_, err := db.Exec(query, args...)
			check(err)
		}
		return backend{
			join: func(host string) store.Store {
				s, err := sqlite.Join(t.Context(), dir, host)
				check(err)
				r.Cleanup(func() { s.Close() })
				return s
			},
			advance: func(d time.Duration) {
				if d != 0 {
					exec("UPDATE hosts SET expires = max(1, expires - ?1), begins = begins - ?1, gone = CASE WHEN gone > 0 THEN max(1, gone - ?1) ELSE 0 END WHERE expires > 0", int64(d))
				}
			},
			save: func() func() {
				for _, table := range modelTables {
					exec("DROP TABLE IF EXISTS temp.saved_" + table)
					exec("CREATE TEMP TABLE saved_" + table + " AS SELECT * FROM main." + table)
				}
				return func() {
					exec("BEGIN IMMEDIATE")
					for _, table := range modelTables {
						exec("DELETE FROM main." + table)
						exec("INSERT INTO main." + table + " SELECT * FROM temp.saved_" + table)
					}
					exec("COMMIT")
				}
			},
			failedOver: func(grace time.Duration, fences bool) {
				if fences {
					exec("UPDATE hosts SET incarnation = incarnation || '?'")
				}
				if grace > 0 {
					exec("UPDATE hosts SET expires = ?1, begins = ?1, gone = 0 WHERE expires > 0", time.Now().Add(grace).UnixNano())
				}
			},
			lower: func(key store.OwnerKey) { exec("UPDATE owners SET epoch = epoch - 1 WHERE key = ?", key) },
		}
	}
}

// recorder is a test that may fail.
type recorder struct {
	rapid.TB
	failed bool
	text   string
}

func (r *recorder) Helper()             {}
func (r *recorder) Logf(string, ...any) {}
func (r *recorder) Log(...any)          {}
func (r *recorder) Failed() bool        { return r.failed }
func (r *recorder) Fail()               { r.failed = true }
func (r *recorder) FailNow()            { r.failed = true; runtime.Goexit() }
func (r *recorder) Errorf(format string, a ...any) {
	r.failed, r.text = true, r.text+fmt.Sprintf(format, a...)
}
func (r *recorder) Fatalf(format string, a ...any) { r.Errorf(format, a...); runtime.Goexit() }
func (r *recorder) Fatal(a ...any)                 { r.Errorf("%s", fmt.Sprint(a...)); runtime.Goexit() }
