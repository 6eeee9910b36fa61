package host

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/flynnhost/flynn/host/channel/attachments"
	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/gateway/backend"
	"github.com/flynnhost/flynn/host/install/folder"
	"github.com/flynnhost/flynn/host/internal/hosttest"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/plugin"
	channelkind "github.com/flynnhost/flynn/host/plugin/kind/channel"
	"github.com/flynnhost/flynn/host/policy/configured"
	w "github.com/flynnhost/flynn/host/policy/meter/wasmtest"
	"github.com/flynnhost/flynn/host/policy/pack"
	"github.com/flynnhost/flynn/host/store"
)

// The tests of this file have hosts that share a store, and that give each other what people install on one of them.

// usesEcho has a configuration name the plugin echo, so that hosts with different versions of it differ.
const usesEcho = "[tools.echo]\nplugin = \"echo\"\nenabled = false\n"

// newParts returns hosts on Postgres, each of which finds its folder again.
func newParts(t *testing.T, more string, names ...string) *pair {
	p := onPostgres(t)
	p.more, p.dirs = more, map[string]string{}
	t.Cleanup(func() {
		for _, dir := range p.dirs {
			if err := folder.Remove(filepath.Join(dir, "s")); err != nil {
				t.Error(err)
			}
			if err := folder.Remove(filepath.Join(dir, "plugins")); err != nil {
				t.Error(err)
			}
		}
	})
	for _, name := range names {
		p.start(name)
	}
	return p
}

// aPlugin is the folder of a version of a plugin, with files of rude sizes that other versions do not have.
func (p *pair) aPlugin(name, version, platform string) string {
	p.t.Helper()
	dir := p.t.TempDir()
	noise := make([]byte, 300_000+rand.IntN(300_000))
	for i := range noise {
		noise[i] = byte(rand.Uint32())
	}
	for file, text := range map[string]string{
		"plugin.toml": fmt.Sprintf("manifest = 1\nname = %q\nversion = %q\nkinds = [\"tools\"]\nprotocols = [1]\nexec = { %s = \"bin/run\" }\n", name, version, platform),
		"bin/run":     "#!/bin/sh\nexit 1\n", "lib/empty": "", "lib/deep/noise": string(noise),
	} {
		at := filepath.Join(dir, file)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			p.t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(text), 0o755); err != nil {
			p.t.Fatal(err)
		}
	}
	return dir
}

// install has a host install a plugin, as its console does.
func (p *pair) install(m *member, dir string) {
	p.t.Helper()
	i := backend.Installed{Config: m.current.Config, Log: m.log}
	if _, err := i.InstallPlugin(p.t.Context(), gateway.PluginSource{From: dir}, "web:owner"); err != nil {
		p.t.Fatal(err)
	}
}

// version is that of a plugin which a host runs, and whose files are all verified; empty without one.
func (p *pair) version(m *member, name string) string {
	s, err := plugin.OpenStore(m.current.Config().Plugins.Dir)
	if err != nil {
		p.t.Fatal(err)
	}
	l, err := s.Verify(name)
	if err != nil || l.FirstParty != "" {
		return ""
	}
	return l.Version
}

// has waits until a host has a version of a plugin, and gets work.
func (p *pair) has(m *member, name, version string) {
	p.t.Helper()
	p.eventually(name+" "+version, func() bool { return p.version(m, name) == version && len(m.parts.Lacks()) == 0 })
	p.works(m)
}

// works waits until a host gets keys.
func (p *pair) works(m *member) {
	p.t.Helper()
	p.eventually("a host gets work", func() bool {
		_, done, err := m.member.Enter(p.t.Context(), conversationKey(fmt.Sprint(rand.Uint64())), nil)
		if err == nil {
			done()
		}
		return err == nil
	})
}

// says waits until a host says in its status what it lacks.
func (p *pair) says(m *member, part string) {
	p.t.Helper()
	p.eventually("it says "+part, func() bool {
		return strings.Contains(strings.Join(m.status().Status(p.t.Context()).Warnings, "\n"), part)
	})
}

// idle are the hosts that get no work.
func (p *pair) idle() (names []string) {
	p.t.Helper()
	for _, m := range p.hosts {
		all, err := m.store.Hosts(p.t.Context())
		if err != nil {
			continue // it is stopped
		}
		for _, h := range all {
			if h.Idle != "" {
				names = append(names, h.ID)
			}
		}
		return names
	}
	return nil
}

// sql runs a statement in the database that is none of the hosts'.
func (p *pair) sql(statement string, args ...any) {
	p.t.Helper()
	conn, err := pgx.Connect(p.t.Context(), p.url)
	if err != nil {
		p.t.Fatal(err)
	}
	defer conn.Close(context.Background())
	if _, err := conn.Exec(p.t.Context(), statement, args...); err != nil {
		p.t.Fatal(err)
	}
}

// count is the answer to a query.
func (p *pair) count(query string) (n int) {
	p.t.Helper()
	conn, err := pgx.Connect(p.t.Context(), p.url)
	if err != nil {
		p.t.Fatal(err)
	}
	defer conn.Close(context.Background())
	if err := conn.QueryRow(p.t.Context(), query).Scan(&n); err != nil {
		p.t.Fatal(err)
	}
	return n
}

// TestAPluginReachesAllHosts has one be installed, replaced and removed on different hosts, of which at least one works all the time.
func TestAPluginReachesAllHosts(t *testing.T) {
	p := newParts(t, usesEcho, "a", "b", "c")
	ctx, stop := context.WithCancel(t.Context())
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		for ctx.Err() == nil {
			if idle := p.idle(); len(idle) == 3 {
				t.Error("no host gets work")
			}
			time.Sleep(20 * time.Millisecond)
		}
	}()
	began := time.Now()
	p.install(p.hosts["a"], p.aPlugin("echo", "1.0.0", "any"))
	for _, m := range p.hosts {
		p.has(m, "echo", "1.0.0")
	}
	owes(t, "installed on all", time.Since(began), 5*time.Second)
	for _, m := range p.hosts {
		program := filepath.Join(m.current.Config().Plugins.Dir, "store/echo/1.0.0/any/bin/run")
		if info, err := os.Stat(program); err != nil || info.Mode().Perm() != 0o500 {
			t.Errorf("the program: %v, %v", info, err)
		}
	}
	i := backend.Installed{Config: p.hosts["c"].current.Config, Log: p.hosts["c"].log}
	if err := i.RemovePlugin(t.Context(), "echo", true, "web:owner"); err != nil {
		t.Fatal(err)
	}
	for _, m := range p.hosts {
		p.has(m, "echo", "")
	}
	p.install(p.hosts["b"], p.aPlugin("echo", "0.9.0", "any"))
	for _, m := range p.hosts {
		p.has(m, "echo", "0.9.0")
	}
	stop()
	<-watched
}

// TestHostsInstallAtTheSameTime has two hosts install different plugins, and different versions of one.
func TestHostsInstallAtTheSameTime(t *testing.T) {
	p := newParts(t, usesEcho+"[tools.other]\nplugin = \"other\"\nenabled = false\n", "a", "b", "c")
	p.install(p.hosts["a"], p.aPlugin("echo", "1.0.0", "any"))
	p.install(p.hosts["b"], p.aPlugin("other", "1.0.0", "any"))
	for _, m := range p.hosts {
		p.has(m, "echo", "1.0.0")
		p.has(m, "other", "1.0.0")
	}
	remove := func(m *member) {
		i := backend.Installed{Config: m.current.Config, Log: m.log}
		if err := i.RemovePlugin(t.Context(), "echo", true, "web:owner"); err != nil {
			t.Fatal(err)
		}
	}
	remove(p.hosts["c"])
	for _, m := range p.hosts {
		p.has(m, "echo", "")
	}
	p.install(p.hosts["a"], p.aPlugin("echo", "2.0.0", "any"))
	p.install(p.hosts["b"], p.aPlugin("echo", "3.0.0", "any"))
	p.eventually("one of them on both, or a trial that failed", func() bool {
		a, b := p.version(p.hosts["a"], "echo"), p.version(p.hosts["b"], "echo")
		lacks := slices.Concat(p.hosts["a"].parts.Lacks(), p.hosts["b"].parts.Lacks())
		return a == b && len(lacks) == 0 || a != b && strings.Contains(fmt.Sprint(lacks), "rejected") // its program cannot start
	})
	if idle := p.idle(); len(idle) == 3 {
		t.Errorf("no host works")
	}
}

// TestAHostThatWasAwayCatchesUp has it be away while another host installs one plugin and removes another.
func TestAHostThatWasAwayCatchesUp(t *testing.T) {
	p := newParts(t, usesEcho, "a", "b")
	p.install(p.hosts["a"], p.aPlugin("old", "1.0.0", "any"))
	p.has(p.hosts["b"], "old", "1.0.0")
	p.hosts["b"].stop()
	p.install(p.hosts["a"], p.aPlugin("echo", "1.0.0", "any"))
	i := backend.Installed{Config: p.hosts["a"].current.Config, Log: p.hosts["a"].log}
	if err := i.RemovePlugin(t.Context(), "old", false, "web:owner"); err != nil {
		t.Fatal(err)
	}
	p.eventually("the first has told", func() bool { return p.count("SELECT count(*) FROM parts WHERE body = '' OR name = 'echo'") == 2 })
	p.hosts["a"].stop()
	b := p.start("b") // the other is dead now
	p.has(b, "echo", "1.0.0")
	p.has(b, "old", "")
	p.has(p.start("a"), "echo", "1.0.0")
	p.works(b)
}

// TestADamagedBlobIsRefused has the database change a file of a plugin: nobody uses it, and the host that has the file mends it.
func TestADamagedBlobIsRefused(t *testing.T) {
	p := newParts(t, usesEcho, "a")
	a := p.hosts["a"]
	p.install(a, p.aPlugin("echo", "1.0.0", "any"))
	p.eventually("it is told", func() bool { return p.count("SELECT count(*) FROM parts") == 1 })
	a.stop()
	p.sql("UPDATE blob_chunks SET bytes = set_byte(bytes, length(bytes) / 2, 255 - get_byte(bytes, length(bytes) / 2)) WHERE length(bytes) > 1000 AND n = 1")
	b := p.start("b")
	p.says(b, "not in the database any more")
	if v := p.version(b, "echo"); v != "" {
		t.Errorf("version %s of a damaged file is installed", v)
	}
	var said []string
	for _, r := range b.recent.Repeats(time.Time{}, 1) {
		said = append(said, r.Message)
	}
	if !strings.Contains(fmt.Sprint(said), "does not have yet") {
		t.Errorf("the log says %q", said)
	}
	p.start("a")
	p.has(b, "echo", "1.0.0")
}

// TestAPluginOfAnotherPlatformIsNotInstalled on a host that cannot run it, which says so, while the other works on.
func TestAPluginOfAnotherPlatformIsNotInstalled(t *testing.T) {
	p := newParts(t, usesEcho, "a", "b")
	a, b := p.hosts["a"], p.hosts["b"]
	dir := p.aPlugin("echo", "1.0.0", plugin.Platform())
	p.install(a, dir)
	p.has(b, "echo", "1.0.0")
	// As a host of another platform would have written it.
	p.sql(`UPDATE control SET parts = parts + 1`)
	p.sql(`UPDATE parts SET revision = (SELECT parts FROM control), body = convert_to(replace(replace(convert_from(body, 'UTF8'), $1, 'plan9-mips'), '1.0.0', '2.0.0'), 'UTF8')`, plugin.Platform())
	for _, m := range []*member{a, b} {
		p.says(m, "it has programs for plan9-mips only")
		if v := p.version(m, "echo"); v != "1.0.0" {
			t.Errorf("version %q is installed", v)
		}
		p.works(m)
	}
}

// TestAPolicyReachesAllHosts has one that decides be replaced on one host. The other puts it in force, and both go on.
func TestAPolicyReachesAllHosts(t *testing.T) {
	p := newParts(t, "[[policies]]\nname = \"guard\"\npolicy = \"mine\"\n")
	install := func(dir string, version string, answer int64) {
		t.Helper()
		folder := t.TempDir()
		manifest := "name = \"mine\"\nversion = \"" + version + "\"\nabi = \"flynn 1\"\nkinds = [\"tool\"]\nlanguage = \"go\"\n[build]\noutput = \"guard.wasm\"\n"
		for name, text := range map[string]string{"policy.toml": manifest, "guard.wasm": string(w.Policy(1).Hook("flynn_tool", "", w.I64(answer)))} {
			if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		of, err := pack.Open(folder)
		if err == nil {
			store := pack.NewStore(filepath.Join(dir, "s", "policies", "installed"), filepath.Join(dir, pack.LockName), pack.Trust{})
			_, _, err = store.Install(t.Context(), of, folder, false)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	p.before = func(dir string) { install(dir, "1.0.0", 0) }
	a, b := p.start("a"), p.start("b")
	for _, m := range []*member{a, b} {
		p.works(m)
	}
	p.eventually("both have told", func() bool { return p.count("SELECT count(*) FROM parts") == 1 && len(b.parts.Lacks()) == 0 })
	install(p.dirs["a"], "1.1.0", 1)
	for _, m := range []*member{b, a} {
		p.eventually("it is in force", func() bool {
			l, err := configured.Store(m.current.Config()).Verify("mine")
			st := m.policies.Status()
			return err == nil && l.Version == "1.1.0" && len(st) == 1 && st[0].File == l.Digest && len(m.parts.Lacks()) == 0
		})
		p.works(m)
	}
	if p.dirs["a"] == p.dirs["b"] {
		t.Fatal("the hosts share their folder")
	}
}

// cutBlobs breaks uploads and downloads of blobs off.
type cutBlobs struct {
	store.Store
	after int // bytes; 0 for no end
}

var errCut = errors.New("cut off")

func (c *cutBlobs) cut(r io.Reader) io.Reader {
	if c.after == 0 {
		return r
	}
	return io.MultiReader(io.LimitReader(r, int64(c.after)), cutReader{})
}

type cutReader struct{}

func (cutReader) Read([]byte) (int, error) { return 0, errCut }

func (c *cutBlobs) PutBlob(ctx context.Context, digest string, body io.Reader) error {
	return c.Store.PutBlob(ctx, digest, c.cut(body))
}

func (c *cutBlobs) Blob(ctx context.Context, digest string) (io.Reader, error) {
	r, err := c.Store.Blob(ctx, digest)
	if err != nil {
		return nil, err
	}
	return c.cut(r), nil
}

// TestABlobThatIsBrokenOff has a host end in the middle of an upload, and one in the middle of a download. Nothing that is half there is used, and
// the next start completes it.
func TestABlobThatIsBrokenOff(t *testing.T) {
	p := newParts(t, usesEcho)
	of := map[string]*cutBlobs{"a": {after: 400_000}, "b": {after: 400_000}}
	p.wrap = func(name string, s store.Store) store.Store {
		of[name].Store = s
		return of[name]
	}
	dir := p.aPlugin("echo", "1.0.0", "any")
	if err := os.WriteFile(filepath.Join(dir, "lib/large"), bytes.Repeat([]byte("large"), 200_000), 0o600); err != nil {
		t.Fatal(err)
	}
	a := p.start("a")
	p.install(a, dir)
	p.eventually("a part of it is there", func() bool { return p.count("SELECT count(*) FROM blobs WHERE NOT complete") > 0 })
	a.stop()
	if n := p.count("SELECT count(*) FROM parts"); n != 0 {
		t.Error("a plugin is agreed on whose files are not there")
	}
	of["a"].after = 0
	a = p.start("a")
	p.eventually("all of it is there", func() bool {
		return p.count("SELECT count(*) FROM parts") == 1 && p.count("SELECT count(*) FROM blobs WHERE NOT complete") == 0
	})
	b := p.start("b")
	p.says(b, "cut off")
	if v := p.version(b, "echo"); v != "" {
		t.Errorf("version %s is installed", v)
	}
	b.stop()
	of["b"].after = 0
	p.has(p.start("b"), "echo", "1.0.0")
	p.works(a)
}

// TestAnUpgradeIsTriedOnEachHost has a plugin that can run replaced by another version of it.
func TestAnUpgradeIsTriedOnEachHost(t *testing.T) {
	p := newParts(t, "", "a", "b")
	built := t.TempDir()
	hosttest.BuildPlugin(t, "plugins/irc", built)
	version := func(v string) string { // of the manifest, and the one that the process reports
		t.Helper()
		dir := t.TempDir()
		if err := os.Mkdir(filepath.Join(dir, "bin"), 0o700); err != nil {
			t.Fatal(err)
		}
		for to, from := range map[string]string{
			"plugin.toml": "../plugins/irc/plugin.toml", "settings.schema.json": "../plugins/irc/settings.schema.json", "bin/irc": filepath.Join(built, "bin/irc"),
		} {
			content, err := os.ReadFile(from)
			if err == nil {
				err = os.WriteFile(filepath.Join(dir, to), bytes.ReplaceAll(content, []byte("0.1.0"), []byte(v)), 0o700)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		return dir
	}
	p.install(p.hosts["a"], version("7.0.0"))
	p.has(p.hosts["b"], "irc", "7.0.0")
	i := backend.Installed{Config: p.hosts["b"].current.Config, Log: p.hosts["b"].log}
	if _, err := i.UpgradePlugin(t.Context(), "irc", gateway.PluginSource{From: version("7.1.0")}, "web:owner"); err != nil {
		t.Fatal(err)
	}
	p.has(p.hosts["a"], "irc", "7.1.0")
	p.has(p.hosts["b"], "irc", "7.1.0")
	i = backend.Installed{Config: p.hosts["a"].current.Config, Log: p.hosts["a"].log}
	if _, err := i.RollbackPlugin(t.Context(), "irc", "web:owner"); err != nil {
		t.Fatal(err)
	}
	p.has(p.hosts["b"], "irc", "7.0.0")
	p.has(p.hosts["a"], "irc", "7.0.0")
}

// platform is a channel's source of attachments.
type platform map[string]string

func (f *platform) Fetch(_ context.Context, handle string, _ int64) (channelkind.Media, error) {
	text, is := (*f)[handle]
	if !is {
		return channelkind.Media{}, errors.New("the platform says 404")
	}
	return channelkind.Media{Name: "of the platform", Size: int64(len(text)), Body: io.NopCloser(strings.NewReader(text))}, nil
}

var _ attachments.Source = &platform{}

// TestAnAttachmentReachesTheHostOfTheTurn has a message come in at the host with the channel whose conversation another one has, and a file of an
// answer leave through the first.
func TestAnAttachmentReachesTheHostOfTheTurn(t *testing.T) { onEachStore(t, anAttachmentReaches) }

func anAttachmentReaches(t *testing.T, p *pair) {
	a, b := p.hosts["a"], p.hosts["b"]
	text := "hello " + strings.Repeat("é", rand.IntN(400_000))
	defer a.files.Attach("irc", &platform{"h1": text})()
	if _, done, err := b.member.Enter(t.Context(), conversationKey("ann"), nil); err != nil {
		t.Fatal(err)
	} else {
		defer done()
	}
	send := func(event, handle string) {
		t.Helper()
		err := a.inbox.Accept(t.Context(), message.Message{
			Channel: "irc", EventID: event, Text: "look", Addressed: true, SentAt: time.Now(), ReceivedAt: time.Now(), Sender: message.Sender{ID: "ann"},
			Conversation: message.Conversation{ID: "ann", Kind: message.DM}, Attachments: []message.Attachment{{Handle: handle, Name: "notes.txt"}},
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	send("e1", "h1")
	p.call() <- "1"
	p.answered("1")
	if o := p.owner(conversationKey("ann")); o != "b" {
		t.Fatalf("the turn ran on %s", o)
	}
	var found []byte
	err := filepath.WalkDir(b.current.Config().Store.Dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.Name() == "notes.txt" {
			found, err = os.ReadFile(path)
		}
		return err
	})
	if err != nil || string(found) != text {
		t.Errorf("the turn has a file of %d bytes, want %d, %v", len(found), len(text), err)
	}
	send("e2", "nothing")
	p.call() <- "2"
	p.answered("1", "2")

	// A file of an answer, whose host has died.
	kept, err := b.files.Keep(t.Context(), "irc:ann", "answer.txt", strings.NewReader("of b"))
	if err != nil {
		t.Fatal(err)
	}
	// And a file that was sent to the page of the other.
	page, err := a.files.Keep(t.Context(), "web:owner", "page.txt", strings.NewReader("of a"))
	if err == nil {
		err = a.store.DropBlob(t.Context(), page.Digest)
	}
	if err != nil {
		t.Fatal(err)
	}
	read := func(m *member, digest string) string {
		t.Helper()
		body, err := m.files.Open(digest)
		if err != nil {
			t.Fatal(err)
		}
		defer body.Close()
		data, err := io.ReadAll(body)
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	if got := read(b, page.Digest); got != "of a" {
		t.Errorf("the page's file is %q", got)
	}
	b.stop()
	if got := read(a, kept.Digest); got != "of b" {
		t.Errorf("the answer's file is %q", got)
	}
}
