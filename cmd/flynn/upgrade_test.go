package main

import (
	"compress/gzip"
	"database/sql"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/flynnhost/flynn/host/config"
)

// oldStores holds databases that earlier versions have written. README.md there says how.
const oldStores = "testdata/stores"

// leaveOldStore is the script command "oldstore VERSION DIR": it leaves the store that a version has written.
func leaveOldStore(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: oldstore VERSION DIR")
	}
	packed, err := os.Open(filepath.Join(oldStores, args[0]+".db.gz"))
	ts.Check(err)
	defer packed.Close()
	in, err := gzip.NewReader(packed)
	ts.Check(err)
	dir := ts.MkAbs(args[1])
	ts.Check(os.MkdirAll(dir, 0o700))
	out, err := os.OpenFile(filepath.Join(dir, "flynn.db"), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	ts.Check(err)
	_, err = io.Copy(out, in)
	ts.Check(err)
	ts.Check(out.Close())
}

// leaveNewerStore is the script command "newerstore CONFIG": it makes the store of a configuration one that a later version has written.
func leaveNewerStore(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: newerstore CONFIG")
	}
	c, err := config.Load(ts.MkAbs(args[0]), ts.Getenv)
	ts.Check(err)
	ts.Check(openStoreOf(ts, args[0]).Close())
	db, err := sql.Open("sqlite", filepath.Join(c.Store.Dir, "flynn.db"))
	ts.Check(err)
	_, err = db.Exec("UPDATE written_by SET version = 'v9.8.7'; PRAGMA user_version = 999")
	ts.Check(err)
	ts.Check(db.Close())
}

// serveIndex is the script command "index FILE": FLYNN_RELEASES becomes an address at which the file is.
func serveIndex(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: index FILE")
	}
	text := ts.ReadFile(args[0])
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, text) }))
	ts.Defer(s.Close)
	ts.Setenv("FLYNN_RELEASES", s.URL+"/release.json")
}
