// Package newcomer holds a test only: a stranger who follows the table "Where to add what" of CONTRIBUTING.md adds one of each.
//
// The table's rows are patches in testdata. They are applied to a copy of the tree, one program is built of it, and each addition is used.
// A patch may touch the files that its row names and no other, and has to touch each of them.
package newcomer

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/agent/memory"
	"github.com/flynnhost/flynn/host/internal/hosttest"
	"github.com/flynnhost/flynn/host/store/sqlite"
	"github.com/flynnhost/flynn/sdk/need"
)

const root = "../../../.."

// patience bounds what takes milliseconds on an idle machine.
const patience = time.Minute

// examples are the rows of the table: the patch that adds one, and the proof that what was added works.
var examples = map[string]struct {
	patch string
	works func(t *testing.T, h *house)
}{
	"a built-in tool":               {"tool", toolIsCalled},
	"a chat command":                {"command", commandAnswers},
	"a metric":                      {"metric", metricCounts},
	"a key of flynn.toml":           {"key", keyIsSeen},
	"a model provider":              {"provider", providerAnswers},
	"a migration of the store":      {"migration", migrationUpgrades},
	"an accepted file type":         {"filetype", typeIsTaken},
	"a command of the command line": {"cli", commandPrints},
}

func TestNewcomer(t *testing.T) {
	_, err := exec.LookPath("git")
	need.Part(t, "git", err)
	if _, err := git(t, root, "rev-parse"); err != nil {
		t.Skipf("not a git checkout: %v", err)
	}
	need.Source(t)
	h := &house{tree: t.TempDir(), dir: t.TempDir(), address: need.Address(t)}
	h.copyTree(t)
	table := readTable(t)
	for what := range examples {
		if _, ok := table[what]; !ok {
			t.Errorf("CONTRIBUTING.md has no row %q", what)
		}
	}
	for what, touches := range table {
		e, ok := examples[what]
		if !ok {
			t.Errorf("the row %q has no example: add a patch to testdata and a line to examples", what)
			continue
		}
		touched := h.apply(t, e.patch)
		checkRow(t, what, touches, touched)
	}
	if t.Failed() {
		return
	}
	h.build(t)
	h.serve(t)
	for what, e := range examples {
		t.Run(e.patch, func(t *testing.T) {
			t.Log(what)
			e.works(t, h)
		})
	}
}

// inTable is a file or a folder that a row names; a folder ends in a slash.
var inTable = regexp.MustCompile("`((?:cmd|examples|host|plugins|policies|sdk)/[\\w./-]+)`")

// readTable reads what the rows of the table name, by what they add.
func readTable(t *testing.T) map[string][]string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "CONTRIBUTING.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, table, found := strings.Cut(string(text), "| To add | Touch |\n")
	if !found {
		t.Fatal("CONTRIBUTING.md has no table of what to touch")
	}
	table, _, _ = strings.Cut(table, "\n\n")
	rows := map[string][]string{}
	for line := range strings.Lines(table) {
		cells := strings.Split(line, " | ")
		if len(cells) != 2 {
			continue // the rule below the head
		}
		what := strings.TrimPrefix(cells[0], "| ")
		for _, m := range inTable.FindAllStringSubmatch(cells[1], -1) {
			rows[what] = append(rows[what], m[1])
		}
	}
	return rows
}

// checkRow compares what a row names with what its patch touches. A folder that a row names gets a new file.
func checkRow(t *testing.T, what string, names, touched []string) {
	t.Helper()
	covers := func(name, file string) bool {
		if slices.Contains(names, file) {
			return name == file
		}
		return strings.HasSuffix(name, "/") && strings.HasPrefix(file, name)
	}
	for _, file := range touched {
		if !slices.ContainsFunc(names, func(name string) bool { return covers(name, file) }) {
			t.Errorf("%s: the patch touches %s, which the row does not name", what, file)
		}
	}
	for _, name := range names {
		if !slices.ContainsFunc(touched, func(file string) bool { return covers(name, file) }) {
			t.Errorf("%s: the row names %s, which the patch does not touch", what, name)
		}
	}
}

// house is the copy of the tree, and the host that was built of it.
type house struct {
	tree, dir string
	address   string
	log       bytes.Buffer // of the host, to be read when it has ended
	said      func() string
}

// copyTree copies the files of the tree as they are now, those that were not committed too.
func (h *house) copyTree(t *testing.T) {
	t.Helper()
	out, err := git(t, root, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	if err != nil {
		t.Fatal(err)
	}
	for name := range strings.SplitSeq(strings.TrimSuffix(out, "\x00"), "\x00") {
		text, err := os.ReadFile(filepath.Join(root, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue // it was removed, and that not committed
		}
		to := filepath.Join(h.tree, name)
		if err := errors.Join(err, os.MkdirAll(filepath.Dir(to), 0o755), os.WriteFile(to, text, 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	probes := os.DirFS("testdata/probes")
	if err := os.CopyFS(h.tree, probes); err != nil {
		t.Fatal(err)
	}
}

// apply applies a patch of testdata and returns the files that it touches.
func (h *house) apply(t *testing.T, name string) (touched []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name+".patch"))
	if err != nil {
		t.Fatal(err)
	}
	migrations, err := filepath.Glob(filepath.Join(h.tree, "host/store/sqlite/migrations/*.sql"))
	if err != nil {
		t.Fatal(err)
	}
	patch := filepath.Join(h.dir, name+".patch")
	text = bytes.ReplaceAll(text, []byte("/NEXT_"), fmt.Appendf(nil, "/%04d_", len(migrations)+1))
	if err := os.WriteFile(patch, text, 0o600); err != nil {
		t.Fatal(err)
	}
	stat, err := git(t, h.tree, "apply", "--numstat", "--apply", "-z", patch)
	if err != nil {
		t.Fatalf("the example no longer fits the tree; write it anew: %v", err)
	}
	for line := range strings.SplitSeq(strings.TrimSuffix(stat, "\x00"), "\x00") {
		touched = append(touched, line[strings.LastIndex(line, "\t")+1:])
	}
	return touched
}

func git(t *testing.T, dir string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CEILING_DIRECTORIES="+filepath.Dir(dir)) // the copy is no repository
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w: %s", args[0], err, &stderr)
	}
	return string(out), nil
}

// build builds the program of the copy, once for all examples. The go command keeps what it compiles, so that packages which no patch
// reaches are not compiled again, and none is where nothing has changed since the last run.
func (h *house) build(t *testing.T) {
	t.Helper()
	if out, err := h.goCommand(t, "build", "-ldflags=-s -w", "-o", h.dir+"/", "./cmd/flynn"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

func (h *house) goCommand(t *testing.T, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir = h.tree
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-trimpath -buildvcs=false -tags="+hosttest.Tags)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

const configuration = `
[agent_configs.main]
tool_profile = "messaging"

[agent_configs.bird]
model_tier = "fast"

[routing]
default_agent = "main"
selectable = ["bird"]

[models.default]
provider = "demo"

[models.fast]
provider = "parrot"

[gateway]
listen = %q
title = "Home"

[store]
dir = %q
`

// serve starts the host on a store that the program of this tree has made, and talks to it.
func (h *house) serve(t *testing.T) {
	t.Helper()
	store, err := sqlite.Open(t.Context(), filepath.Join(h.dir, "store"))
	if err != nil {
		t.Fatal(err)
	}
	err = store.WriteNote(t.Context(), memory.Note{Agent: "main", Key: "cat", Text: "called Mia", By: "irc:ann", Updated: time.Now()}, 0)
	if err := errors.Join(err, store.Close()); err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf(configuration, h.address, filepath.Join(h.dir, "store"))
	if err := os.WriteFile(filepath.Join(h.dir, "flynn.toml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := h.command(context.WithoutCancel(t.Context()), "serve")
	cmd.Stdout, cmd.Stderr = &h.log, &h.log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Signal(os.Interrupt)
		late := time.AfterFunc(patience, func() { cmd.Process.Kill() })
		defer late.Stop()
		if err := cmd.Wait(); err != nil || t.Failed() {
			t.Errorf("the host ended with %v; its log:\n%s", err, &h.log)
		}
	})
	for late := time.Now().Add(patience); ; <-time.After(10 * time.Millisecond) {
		if _, err := h.get("/readyz"); err == nil {
			break
		} else if time.Now().After(late) {
			t.Fatal(err)
		}
	}
	// Each line is answered before the next is read.
	h.said = sync.OnceValue(func() string {
		cmd := h.command(t.Context(), "chat")
		cmd.Stdin = strings.NewReader("!tool text.count {\"text\":\"one two three\"}\n/ping\n/help\n/agent bird\nhello\n")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("flynn chat: %v", err)
		}
		return string(out)
	})
}

func (h *house) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, filepath.Join(h.dir, "flynn"), args...)
	cmd.Env = append(os.Environ(), "FLYNN_CONFIG="+filepath.Join(h.dir, "flynn.toml"), "XDG_RUNTIME_DIR="+h.dir)
	return cmd
}

func (h *house) run(t *testing.T, args ...string) string {
	t.Helper()
	out, err := h.command(t.Context(), args...).CombinedOutput()
	if err != nil {
		t.Errorf("flynn %s: %v: %s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

func (h *house) get(path string) (string, error) {
	req, err := http.NewRequest(http.MethodGet, "http://"+h.address+path, nil)
	if err != nil {
		return "", err
	}
	if token, err := os.ReadFile(filepath.Join(h.dir, "store/gateway.token")); err == nil {
		req.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s: %s", path, resp.Status, text)
	}
	return string(text), err
}

// contains fails the test where a text lacks one of the parts.
func contains(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%q is not in\n%s", part, text)
		}
	}
}

func toolIsCalled(t *testing.T, h *house) { contains(t, h.said(), "3 words") }

func commandAnswers(t *testing.T, h *house) {
	contains(t, h.said(), "The host is here.", "/ping`: whether the host is here")
}

func providerAnswers(t *testing.T, h *house) { contains(t, h.said(), "Squawk! hello") }

func metricCounts(t *testing.T, h *house) {
	h.said()
	text, err := h.get("/metrics")
	if err != nil {
		t.Fatal(err)
	}
	contains(t, text, `flynn_turns_total{agent="main"} 1`, `flynn_turns_total{agent="bird"} 1`)
}

func keyIsSeen(t *testing.T, h *house) {
	h.run(t, "config", "check")
	contains(t, h.run(t, "config", "show"), `title = "Home"`)
	h.test(t, "./host/config", "^(TestNewcomer|TestReferenceNamesEveryKey|TestSchemaTags)$")
}

func typeIsTaken(t *testing.T, h *house) { h.test(t, "./host/channel/attachments", "^TestNewcomer$") }

// test runs tests of the copy, those of testdata/probes among them.
func (h *house) test(t *testing.T, pkg, names string) {
	t.Helper()
	out, err := h.goCommand(t, "test", "-vet=off", "-v", "-run", names, pkg)
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	contains(t, out, "--- PASS: TestNewcomer")
}

func commandPrints(t *testing.T, h *house) {
	contains(t, h.run(t, "hello"), "Hello.\n")
	contains(t, h.run(t, "--help"), "greet the reader")
}

func migrationUpgrades(t *testing.T, h *house) {
	db, err := sql.Open("sqlite", "file:"+filepath.Join(h.dir, "store/flynn.db")+"?mode=ro")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	before, err := filepath.Glob(filepath.Join(root, "host/store/sqlite/migrations/*.sql"))
	if err != nil {
		t.Fatal(err)
	}
	var version int
	var note string
	err = errors.Join(
		db.QueryRow("PRAGMA user_version").Scan(&version),
		db.QueryRow("SELECT text FROM notes WHERE key = 'cat'").Scan(&note),
		db.QueryRow("SELECT count(seen) FROM marks").Scan(new(int)),
	)
	if err != nil || version != len(before)+1 || note != "called Mia" {
		t.Errorf("the store has version %d and the note %q, %v; want version %d and what was written by the version before", version, note, err, len(before)+1)
	}
}
