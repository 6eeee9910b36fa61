package backup

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"filippo.io/age"
	"go.uber.org/goleak"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/store/sqlite"
)

func TestMain(m *testing.M) {
	work = 10
	goleak.VerifyTestMain(m)
}

func nothing(string) string { return "" }

// home is a host's files: flynn.toml with the store beside it, or elsewhere.
type home struct {
	dir, store string
	config     *config.Config
	key        *age.X25519Identity
}

func newHome(t *testing.T, store string, more ...string) home {
	t.Helper()
	h := home{dir: t.TempDir()}
	h.store = store
	if !filepath.IsAbs(store) {
		h.store = filepath.Join(h.dir, store)
	}
	h.write(t, filepath.Join(h.dir, "flynn.toml"), fmt.Sprintf(`[store]
dir = %q
[gateway]
token_file = "token"
[agent_configs.main]
system_prompt = "You are a helpful assistant."
[routing]
default_agent = "main"
%s`, store, strings.Join(more, "\n")), 0o600)
	h.write(t, filepath.Join(h.dir, "token"), "gateway-token", 0o600)
	h.write(t, filepath.Join(h.dir, "secrets", "inner", "key"), "secret beside", 0o600)
	h.write(t, filepath.Join(h.dir, "not named"), "no", 0o600)
	s, err := sqlite.Open(t.Context(), h.store)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if h.config, err = config.Load(filepath.Join(h.dir, "flynn.toml"), nothing); err != nil {
		t.Fatal(err)
	}
	if h.key, err = age.GenerateX25519Identity(); err != nil {
		t.Fatal(err)
	}
	return h
}

func (h home) write(t testing.TB, path, text string, mode fs.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
}

func (h home) backup(t testing.TB) Made {
	t.Helper()
	m, err := Make(t.Context(), h.config, nothing, t.(*testing.T).TempDir(), []age.Recipient{h.key.Recipient()}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// tree describes all files below a folder: kind, mode, contents, links, and times of files.
func tree(t testing.TB, dir string, skipped ...string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(dir, path)
		if slices.ContainsFunc(skipped, func(s string) bool {
			return name == s || strings.HasPrefix(name, s) && strings.HasPrefix(s, "flynn.db")
		}) {
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		switch {
		case d.IsDir():
			all[name] = info.Mode().String()
		case info.Mode()&fs.ModeSymlink != 0:
			to, err := os.Readlink(path)
			all[name] = "-> " + to
			return err
		case info.Mode().IsRegular():
			text, err := os.ReadFile(path)
			all[name] = info.Mode().String() + " " + info.ModTime().UTC().Truncate(time.Second).String() + " " + string(text)
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	delete(all, ".")
	return all
}

// rows reads the texts of table t of a database.
func rows(t testing.TB, path string) (all []string) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	found, err := db.QueryContext(t.Context(), "SELECT text FROM t ORDER BY text")
	if err != nil {
		t.Fatal(err)
	}
	defer found.Close()
	for found.Next() {
		var text string
		if err := found.Scan(&text); err != nil {
			t.Fatal(err)
		}
		all = append(all, text)
	}
	return all
}

// TestRestoredElsewhere restores the backup of a host with rude files, in each place where a store can be.
func TestRestoredElsewhere(t *testing.T) {
	for name, c := range map[string]struct {
		store string
		moved bool
	}{
		"beside flynn.toml": {"flynn-data", false}, "elsewhere": {filepath.Join(t.TempDir(), "elsewhere", "data"), true}, "moved": {"flynn-data", true},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHome(t, c.store)
			work := filepath.Join(h.store, "workspaces", "one")
			for _, file := range []string{"plain", "-rf", "new\nline", "esc\x1b[2J", "späce ☃", "\xff\xfe", "a.db-wal", strings.Repeat("n", 250)} {
				h.write(t, filepath.Join(work, "in", file), "text of "+file, 0o640)
			}
			h.write(t, filepath.Join(work, "large"), strings.Repeat("large ", 3<<20), 0o755)
			h.write(t, filepath.Join(h.store, "secrets", "telegram"), "123:secret", 0o600)
			h.write(t, filepath.Join(h.store, "wasm-cache", "x"), "made again", 0o600)
			h.write(t, filepath.Join(h.store, scratch+"old", "x"), "left", 0o600)
			if err := os.MkdirAll(filepath.Join(work, "empty", "more"), 0o750); err != nil {
				t.Fatal(err)
			}
			for link, to := range map[string]string{"dangling": "nowhere", "out": "/etc/passwd", "up": "../../secrets/telegram", "loop": "."} {
				if err := os.Symlink(to, filepath.Join(work, link)); err != nil {
					t.Fatal(err)
				}
			}
			if err := syscall.Mkfifo(filepath.Join(work, "pipe"), 0o600); err != nil {
				t.Fatal(err)
			}
			listener, err := net.Listen("unix", filepath.Join(work, "s"))
			if err != nil {
				t.Fatal(err)
			}
			defer listener.Close()
			// A plugin has its own database open, with rows in its log only.
			plugins := filepath.Join(h.store, "state", "wa")
			if err := os.MkdirAll(plugins, 0o700); err != nil {
				t.Fatal(err)
			}
			db, err := sql.Open("sqlite", "file:"+filepath.Join(plugins, "a-session.db")+"?_pragma=journal_mode(WAL)")
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			if _, err := db.ExecContext(t.Context(), "CREATE TABLE t (text TEXT); INSERT INTO t VALUES ('linked')"); err != nil {
				t.Fatal(err)
			}

			m := h.backup(t)
			if len(m.Left) != 0 {
				t.Errorf("left out: %v", m.Left)
			}
			keys := []age.Identity{h.key}
			if r, err := Verify(t.Context(), m.Path, keys); err != nil || r.Files == 0 {
				t.Fatalf("verify: %+v (%v)", r, err)
			}
			to := Target{Config: filepath.Join(t.TempDir(), "new", "flynn.toml")}
			if c.moved {
				to.Store = filepath.Join(t.TempDir(), "moved", "data")
			}
			r, err := Restore(t.Context(), m.Path, keys, to)
			if err != nil {
				t.Fatal(err)
			}
			now, err := config.Load(to.Config, nothing)
			if err != nil || now.Store.Dir != r.Store {
				t.Fatalf("the restored configuration has its store in %s, not %s (%v)", now.Store.Dir, r.Store, err)
			}
			skipped := []string{"flynn.db", "lock", "wasm-cache", scratch + "old", "workspaces/one/pipe", "workspaces/one/s", "state/wa/a-session.db", "state/wa/a-session.db-wal", "state/wa/a-session.db-shm"}
			was, is := tree(t, h.store, skipped...), tree(t, r.Store, skipped...)
			for name := range was {
				if was[name] != is[name] {
					t.Errorf("%q was %.100q and is %.100q", name, was[name], is[name])
				}
			}
			if len(was) != len(is) {
				t.Errorf("%d files were, and %d are", len(was), len(is))
			}
			if got := rows(t, filepath.Join(r.Store, "state", "wa", "a-session.db")); len(got) != 1 || got[0] != "linked" {
				t.Errorf("the plugin's database has %q", got)
			}
			for name, want := range map[string]bool{"token": true, "secrets/inner/key": true, "not named": false} {
				if _, err := os.Stat(filepath.Join(filepath.Dir(to.Config), name)); (err == nil) != want {
					t.Errorf("%s: %v", name, err)
				}
			}
			s, err := sqlite.Open(t.Context(), r.Store)
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			if _, err := Restore(t.Context(), m.Path, keys, to); err == nil || !strings.Contains(err.Error(), "is there already") {
				t.Errorf("restored over what is there: %v", err)
			}
		})
	}
}

// TestBackupsOfABusyStore makes backups while the database is written to: each has the rows of one moment.
func TestBackupsOfABusyStore(t *testing.T) {
	h := newHome(t, "data")
	db, err := sql.Open("sqlite", "file:"+filepath.Join(h.store, "flynn.db")+"?_pragma=busy_timeout(5000)&_pragma=journal_mode(WAL)")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.ExecContext(t.Context(), "CREATE TABLE t (text TEXT)"); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var wrote sync.WaitGroup
	wrote.Go(func() {
		for n := 0; ctx.Err() == nil; n++ { // two rows that are there together or not at all
			tx, err := db.Begin()
			if err == nil {
				_, err = tx.Exec("INSERT INTO t VALUES (?), (?)", fmt.Sprintf("%09d a", n), fmt.Sprintf("%09d b %s", n, strings.Repeat("x", 3000)))
				err = errors.Join(err, tx.Commit())
			}
			if err != nil {
				t.Error(err)
				return
			}
		}
	})
	last := 0
	for range 5 {
		m := h.backup(t)
		to := Target{Config: filepath.Join(t.TempDir(), "flynn.toml")}
		r, err := Restore(t.Context(), m.Path, []age.Identity{h.key}, to)
		if err != nil {
			t.Fatal(err)
		}
		all := rows(t, filepath.Join(r.Store, "flynn.db"))
		if len(all)%2 != 0 || len(all) < last {
			t.Errorf("%d rows, after %d", len(all), last)
		}
		for i, text := range all {
			if !strings.HasPrefix(text, fmt.Sprintf("%09d %c", i/2, "ab"[i%2])) {
				t.Fatalf("row %d is %.20s", i, text)
			}
		}
		last = len(all)
	}
	stop()
	wrote.Wait()
	if last == 0 {
		t.Error("nothing was written meanwhile")
	}
}

// TestAgentsCannotHaveSecretsCopied swaps files and folders of a workspace for links to secrets while backups are made.
func TestAgentsCannotHaveSecretsCopied(t *testing.T) {
	h := newHome(t, "data")
	h.write(t, filepath.Join(h.store, "secrets", "deep", "f"), "TOPSECRET", 0o600)
	work := filepath.Join(h.store, "workspaces", "w")
	h.write(t, filepath.Join(work, "deep", "f"), "harmless", 0o600)
	ctx, stop := context.WithCancel(t.Context())
	var swapping sync.WaitGroup
	for _, name := range []string{"deep", "deep/f"} {
		swapping.Go(func() {
			path := filepath.Join(work, name)
			up := strings.Repeat("../", strings.Count(name, "/")+2)
			for ctx.Err() == nil {
				_ = os.Rename(path, path+".away")
				_ = os.Symlink(up+"secrets/"+name, path)
				_ = os.Remove(path)
				_ = os.Rename(path+".away", path)
			}
		})
	}
	for range 40 {
		m := h.backup(t)
		for name, text := range contents(t, m.Path, h.key) {
			if strings.Contains(text, "TOPSECRET") && strings.HasPrefix(name, "store/workspaces/") {
				t.Errorf("%s has the secret", name)
			}
		}
		if err := os.Remove(m.Path); err != nil {
			t.Fatal(err)
		}
	}
	stop()
	swapping.Wait()
}

// contents reads the files of a backup as age and tar would.
func contents(t testing.TB, path string, key age.Identity) map[string]string {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	plain, err := age.Decrypt(f, key)
	if err != nil {
		t.Fatal(err)
	}
	unpacked, err := gzip.NewReader(plain)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for r := tar.NewReader(unpacked); ; {
		h, err := r.Next()
		if err == io.EOF {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		all[h.Name] = string(text)
	}
}

// TestDamagedBackups changes and cuts a backup at random places: it is always noticed, and nothing is restored.
func TestDamagedBackups(t *testing.T) {
	h := newHome(t, "data")
	h.write(t, filepath.Join(h.store, "media", "x"), strings.Repeat("abc", 50_000), 0o600)
	whole, err := os.ReadFile(h.backup(t).Path)
	if err != nil {
		t.Fatal(err)
	}
	keys := []age.Identity{h.key}
	dir := t.TempDir()
	path := filepath.Join(dir, "damaged")
	for n := range 60 {
		text := bytes.Clone(whole)
		at := rand.IntN(len(text))
		switch n % 3 {
		case 0:
			text = text[:at]
		case 1:
			text[at] ^= byte(1 + rand.IntN(255))
		case 2:
			text = append(text, make([]byte, 1+rand.IntN(100))...)
		}
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		to := Target{Config: filepath.Join(dir, "new", "flynn.toml"), Store: filepath.Join(dir, "new", "data")}
		if _, err := Restore(t.Context(), path, keys, to); err == nil {
			t.Fatalf("case %d at %d of %d was restored", n%3, at, len(whole))
		}
		if _, err := Verify(t.Context(), path, keys); err == nil {
			t.Fatalf("case %d at %d of %d is said to be whole", n%3, at, len(whole))
		}
		if got := tree(t, dir, "damaged", "new"); len(got) != 0 {
			t.Fatalf("left: %v", got)
		}
		if left, _ := os.ReadDir(filepath.Join(dir, "new")); len(left) != 0 {
			t.Fatalf("left: %v", left)
		}
	}
}

// forge makes a backup with the given entries, as somebody who has the public key can.
func forge(t *testing.T, key *age.X25519Identity, list bool, entries ...*tar.Header) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "forged")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	sealed, err := age.Encrypt(f, key.Recipient())
	if err != nil {
		t.Fatal(err)
	}
	packed := gzip.NewWriter(sealed)
	w := &writer{ctx: t.Context(), tar: tar.NewWriter(packed)}
	err = w.json(headName, head{Format: format, Made: time.Now(), Flynn: "v1", Host: "h", Store: "data"})
	for _, e := range entries {
		if e.Typeflag == tar.TypeReg {
			e.Size = 4
			err = errors.Join(err, w.stream(e, strings.NewReader("text"), e.Name))
			continue
		}
		err = errors.Join(err, w.plain(e))
	}
	if list {
		err = errors.Join(err, w.json(manifestName, manifest{Entries: w.entries}))
	}
	if err := errors.Join(err, w.tar.Close(), packed.Close(), sealed.Close(), f.Close()); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestForgedBackups restores what no host would have made: nothing outside of the two places is touched, and nothing is kept.
func TestForgedBackups(t *testing.T) {
	key, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	file := func(name string) *tar.Header { return &tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o600} }
	link := func(name, to string) *tar.Header {
		return &tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: to}
	}
	outside := t.TempDir()
	for name, entries := range map[string][]*tar.Header{
		"up":               {file("store/../../x")},
		"absolute":         {file("/etc/x")},
		"absolute within":  {file("store//etc/x")},
		"another folder":   {file("other/x")},
		"no folder":        {file("x")},
		"empty":            {{Typeflag: tar.TypeDir, Name: "store/"}},
		"through a link":   {link("store/l", outside), file("store/l/x")},
		"a link twice":     {link("store/l", outside), link("store/l/m", "x")},
		"in place":         {link("store/l", filepath.Join(outside, "x")), file("store/l")},
		"twice":            {file("store/x"), file("store/x")},
		"configuration":    {link("config/flynn.toml", "/etc/passwd")},
		"database":         {link("store/flynn.db", "/etc/passwd")},
		"not a database":   {file("config/flynn.toml"), file("store/flynn.db")},
		"hard link":        {{Typeflag: tar.TypeLink, Name: "store/h", Linkname: "/etc/passwd"}},
		"device":           {{Typeflag: tar.TypeChar, Name: "store/d"}},
		"pipe":             {{Typeflag: tar.TypeFifo, Name: "store/p"}},
		"folder over file": {file("store/x"), {Typeflag: tar.TypeDir, Name: "store/x/y/"}},
		"no configuration": {file("store/x")},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			r, err := Restore(t.Context(), forge(t, key, true, entries...), []age.Identity{key}, Target{Config: filepath.Join(dir, "flynn.toml")})
			if err == nil {
				t.Errorf("restored: %+v", r)
			}
			if got := tree(t, dir); len(got) != 0 {
				t.Errorf("left: %v", got)
			}
			if got := tree(t, outside); len(got) != 0 {
				t.Fatalf("outside: %v", got)
			}
		})
	}
	if _, err := Verify(t.Context(), forge(t, key, false, file("store/x")), []age.Identity{key}); err == nil || !strings.Contains(err.Error(), "cut short") {
		t.Errorf("without a list: %v", err)
	}
}

func TestKeys(t *testing.T) {
	h := newHome(t, "data")
	file := filepath.Join(t.TempDir(), "key")
	public, err := NewKey(file)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := NewKey(file); err == nil {
		t.Error("a key was written over")
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v (%v)", info.Mode(), err)
	}
	for name, c := range map[string]struct {
		keys       []string
		pass       config.Secret
		open       string
		openedWith config.Secret
		made, want string // errors
	}{
		"a key":              {[]string{public}, "", file, "", "", ""},
		"one of two":         {[]string{h.key.Recipient().String(), public}, "", file, "", "", ""},
		"a passphrase":       {nil, "correct horse", "", "correct horse", "", ""},
		"another key":        {[]string{h.key.Recipient().String()}, "", file, "", "", "another key"},
		"another passphrase": {nil, "correct horse", "", "battery", "", "another key or passphrase"},
		"nothing":            {nil, "", "", "", "name a key", ""},
		"both":               {[]string{public}, "x", "", "", "leave one", ""},
		"no key":             {[]string{"ssh-rsa x"}, "", "", "", "not a public key", ""},
		"two in one":         {[]string{public + "\n" + public}, "", "", "", "not a public key", ""},
		"a secret key":       {[]string{h.key.String()}, "", "", "", "not a public key", ""},
	} {
		t.Run(name, func(t *testing.T) {
			to, err := Recipients(c.keys, c.pass)
			if c.made != "" {
				if err == nil || !strings.Contains(err.Error(), c.made) || strings.Contains(err.Error(), "SECRET-KEY-1") && len(err.Error()) > 200 {
					t.Errorf("%v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			m, err := Make(t.Context(), h.config, nothing, t.TempDir(), to, time.Now())
			if err != nil {
				t.Fatal(err)
			}
			ids, err := Identities(c.open, c.openedWith)
			if err != nil {
				t.Fatal(err)
			}
			_, err = Verify(t.Context(), m.Path, ids)
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("%v", err)
			}
		})
	}
	h.write(t, file, "AGE-SECRET-KEY-1HIDDEN\n", 0o600)
	if _, err := Identities(file, ""); err == nil || strings.Contains(err.Error(), "HIDDEN") {
		t.Errorf("a key that is none: %v", err)
	}
}

func TestWhereBackupsMayGo(t *testing.T) {
	h := newHome(t, "data")
	key := []age.Recipient{h.key.Recipient()}
	inside := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(h.store, inside); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{h.store, filepath.Join(h.store, "backups"), filepath.Join(inside, "b")} {
		if _, err := Make(t.Context(), h.config, nothing, dir, key, time.Now()); err == nil || !strings.Contains(err.Error(), "in the folder of the store") {
			t.Errorf("%s: %v", dir, err)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	to, now := t.TempDir(), time.Now()
	if _, err := Make(ended, h.config, nothing, to, key, now); !errors.Is(err, context.Canceled) {
		t.Errorf("after its end: %v", err)
	}
	if _, err := Make(t.Context(), h.config, nothing, to, key, now); err != nil {
		t.Error(err)
	}
	if _, err := Make(t.Context(), h.config, nothing, to, key, now); err == nil || !strings.Contains(err.Error(), "there already") {
		t.Errorf("in the same second: %v", err)
	}
	if all, err := List(to); err != nil || len(all) != 1 {
		t.Errorf("%v (%v)", all, err)
	}
	if got, _ := os.ReadDir(to); len(got) != 1 {
		t.Errorf("left: %v", got)
	}
	if left, _ := filepath.Glob(filepath.Join(h.store, scratch+"*")); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}

func (h home) current() *config.Config { return h.config }
