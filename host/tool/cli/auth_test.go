package cli

import (
	"database/sql"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	_ "modernc.org/sqlite" // as the program and its owner have it

	"github.com/flynnhost/flynn/sdk/need"
)

// database runs statements in a database file, and returns the one column of the last as lines.
func database(t *testing.T, path string, statements ...string) (lines string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, s := range statements {
		rows, err := db.Query(s)
		if err != nil {
			t.Fatalf("%s: %v", s, err)
		}
		lines = ""
		for rows.Next() {
			var text string
			if err := rows.Scan(&text); err != nil {
				t.Fatal(err)
			}
			lines += text + "\n"
		}
		if err := rows.Err(); err != nil {
			t.Fatal(err)
		}
	}
	return lines
}

// Founding row 23: "First run copies the credentials database; later runs refresh only the credentials and keep the conversations".
func TestLoginInADatabase(t *testing.T) {
	_, err := exec.LookPath("python3")
	need.Part(t, "python", err)
	c := Config{AuthDir: filepath.Join(t.TempDir(), "it's auth"), StateDir: filepath.Join(t.TempDir(), "st ate"), AuthDatabase: "kiro/data.sqlite3", AuthTable: "auth_kv"}
	owner, mine := filepath.Join(c.AuthDir, c.AuthDatabase), filepath.Join(c.StateDir, c.AuthDatabase)
	run := func(path string) (string, error) {
		t.Helper()
		cmd := exec.Command("/bin/sh", "-c", c.syncScript())
		cmd.Env = []string{"PATH=" + path}
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	refreshed := func() {
		t.Helper()
		if out, err := run(os.Getenv("PATH")); err != nil || out != "" {
			t.Fatalf("%v: %s", err, out)
		}
		for _, left := range []string{".owner", ".owner-wal", ".owner-shm"} {
			if _, err := os.Stat(mine + left); err == nil {
				t.Errorf("%s is left", mine+left)
			}
		}
	}
	if out, err := run(os.Getenv("PATH")); err == nil || !strings.Contains(out, "no credentials: "+owner+" is not there") {
		t.Errorf("without a login: %v, %s", err, out)
	}
	database(t, owner, "PRAGMA journal_mode = wal", "CREATE TABLE auth_kv (key TEXT PRIMARY KEY, value TEXT)", "CREATE TABLE conversations (said TEXT)",
		"INSERT INTO auth_kv VALUES ('token', 'first'), ('other', 'x')", "INSERT INTO conversations VALUES ('the owner''s')")
	refreshed()
	if got := database(t, mine, "SELECT value FROM auth_kv ORDER BY value"); got != "first\nx\n" {
		t.Errorf("the first run has copied %q", got)
	}
	database(t, mine, "INSERT INTO conversations VALUES ('the program''s')", "UPDATE auth_kv SET value = 'stale'")
	database(t, owner, "DELETE FROM auth_kv", "INSERT INTO auth_kv VALUES ('token', 'second')", "INSERT INTO conversations VALUES ('another of the owner''s')")
	refreshed()
	if got := database(t, mine, "SELECT value FROM auth_kv"); got != "second\n" {
		t.Errorf("the login is %q", got)
	}
	if got := database(t, mine, "SELECT said FROM conversations ORDER BY said"); got != "the owner's\nthe program's\n" {
		t.Errorf("the conversations are %q", got)
	}
	if out, err := run(bare(t)); err == nil || !strings.Contains(out, "the image has neither sqlite3 nor python3") {
		t.Errorf("without a program that knows SQLite: %v, %s", err, out)
	}
}

// bare is a PATH with what the script needs besides.
func bare(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"cat", "mkdir", "mv", "rm"} {
		program, err := exec.LookPath(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(program, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// Kiro's prints colours all the same; its answer has none, wherever the output is cut.
func TestEscapesOfATerminal(t *testing.T) {
	const said = "\x1b[38;5;141m> \x1b[0mone\x1b]0;title\x07 two\x1b(B \x1b[1;1Hthree\x1b[ \nfour \x1b]8;;http://a\nfive\x1b7"
	const want = "> one two three\nfour \nfive"
	for cut := range len(said) {
		p := sound()
		p.Output = OutputText
		o, err := newOutput(p, func(string) {})
		if err != nil {
			t.Fatal(err)
		}
		for _, piece := range []string{said[:cut], said[cut:]} {
			if _, err := o.Write([]byte(piece)); err != nil {
				t.Fatal(err)
			}
		}
		o.end()
		if got := o.whole(); got != want {
			t.Fatalf("cut at %d: %q, want %q", cut, got, want)
		}
	}
}

func TestKiro(t *testing.T) {
	p, ok := PresetOf("kiro")
	p.StateDir, p.Timeout = "/state", time.Minute
	if err := p.Check(); !ok || err != nil || p.AuthDatabase == "" || p.AuthTable != "auth_kv" || len(p.Unknown) == 0 || p.ConfigDir == "" {
		t.Errorf("%+v: %v", p, err)
	}
}
