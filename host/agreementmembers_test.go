package host

import (
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/config/edit"
	"github.com/flynnhost/flynn/host/store"
)

// The tests of this file have hosts that share a store, and a person who changes the configuration at one of them. Each either reaches all or none.

var author = edit.Author{By: "web:owner", What: "a test"}

// setting is an edit of one key.
func setting(value any, key ...string) func(*edit.File, *config.Config) error {
	return func(f *edit.File, _ *config.Config) error { return f.Set(value, key...) }
}

func sessionsOf(m *member) int { return m.current.Config().Limits.SenderSessions }

func (p *pair) textOf(m *member) string {
	p.t.Helper()
	text, err := os.ReadFile(m.holder.Path())
	if err != nil {
		p.t.Fatal(err)
	}
	return string(text)
}

// all waits until something holds of all hosts, and they get work.
func (p *pair) all(what string, holds func(m *member) bool) {
	p.t.Helper()
	for name, m := range p.hosts {
		p.eventually(name+": "+what, func() bool { return holds(m) })
		p.works(m)
	}
}

func TestAChangeReachesAllHosts(t *testing.T) {
	p := newParts(t, "# of all\n[limits] # how much\nsender_sessions = 5 # five\n[[schedules]]\nname = \"s1\"\nevery = \"24h\"\ntext = \"go\"\nagent = \"a\"\n"+
		"as = \"irc:ann\"\n", "a", "b", "c")
	a, b := p.hosts["a"], p.hosts["b"]
	own := func(m *member) string { return strings.SplitN(p.textOf(m), "[routing]", 2)[0] }
	before := map[string]string{}
	for name, m := range p.hosts {
		before[name] = own(m)
	}
	began := time.Now()
	made, err := a.editor.Edit(t.Context(), author, setting(7, "limits", "sender_sessions"))
	if err != nil {
		t.Fatal(err)
	}
	owes(t, "agreed on", time.Since(began), 2*time.Second)
	if strings.Join(made.Hosts, " ") != "a b c" {
		t.Errorf("it is in force on %q", made.Hosts)
	}
	p.all("it has the change", func(m *member) bool { return sessionsOf(m) == 7 })
	owes(t, "in force on all", time.Since(began), 3*time.Second)

	// Rude values, another host, and tables that come and go.
	rude := "line\none \"two\" \\ \u202e\x7f''' \t é"
	_, err = b.editor.Edit(t.Context(), author, func(f *edit.File, _ *config.Config) error {
		return errors.Join(
			f.Set(rude, "system_prompt"),
			f.Set(edit.Table{"tool_profile": "minimal"}, "agent_configs", "an-agent"),
			f.Set([]string{rude, "x"}, "channels", "irc", "lines"),
			f.Remove("schedules", "[0]"),
			f.Set(9, "sandbox", "pids_limit"), f.Set(3, "budgets", "parallel_turns"),
		)
	})
	if err != nil {
		t.Fatal(err)
	}
	p.all("it has rude values", func(m *member) bool {
		c := m.current.Config()
		return c.SystemPrompt == rude && c.Agents["an-agent"].ToolProfile == "minimal" && len(c.Schedules) == 0 && len(c.Waiting) == 1
	})

	// A file that is edited by hand is a change like any other, and one that concerns one host alone asks nobody.
	asked := p.count("SELECT count(*) FROM revisions")
	p.rewrite(a, "127.0.0.1:0\"", "127.0.0.1:0\"\norigins = [\"https://a.example\"] # mine")
	p.eventually("its own", func() bool {
		return len(a.current.Config().Gateway.Origins) == 0 && len(a.current.Config().Waiting) == 2
	})
	if now := p.count("SELECT count(*) FROM revisions"); now != asked {
		t.Errorf("asked about what concerns one host: %d revisions, and were %d", now, asked)
	}
	p.rewrite(a, "sender_sessions = 7", "sender_sessions = 8")
	p.all("it has what was written by hand", func(m *member) bool { return sessionsOf(m) == 8 })
	for name, m := range p.hosts {
		text := p.textOf(m)
		if !strings.Contains(text, "# of all\n[limits] # how much\nsender_sessions = 8 # five\n") || strings.Contains(text, "origins") != (name == "a") ||
			name != "a" && !strings.HasSuffix(own(m), before[name][strings.Index(before[name], "[store]"):]) {
			t.Errorf("%s has\n%s\nand had\n%s", name, text, before[name])
		}
	}
}

// rewrite edits the file of a host by hand.
func (p *pair) rewrite(m *member, old, next string) {
	p.t.Helper()
	text := p.textOf(m)
	if !strings.Contains(text, old) {
		p.t.Fatalf("%q is not in\n%s", old, text)
	}
	if err := os.WriteFile(m.holder.Path(), []byte(strings.Replace(text, old, next, 1)), 0o600); err != nil {
		p.t.Fatal(err)
	}
}

// TestAChangeThatOneHostCannotTakeIsMadeOnNone: it says which host, and why.
func TestAChangeThatOneHostCannotTakeIsMadeOnNone(t *testing.T) {
	p := newParts(t, "[limits]\nsender_sessions = 5\n", "a", "b", "c")
	a, b := p.hosts["a"], p.hosts["b"]
	texts := map[string]string{}
	for name, m := range p.hosts {
		texts[name] = p.textOf(m)
	}
	unchanged := func(what string) {
		t.Helper()
		for name, m := range p.hosts {
			if now := p.textOf(m); now != texts[name] {
				t.Errorf("%s: %s has\n%s", what, name, now)
			}
			if sessionsOf(m) != 5 {
				t.Errorf("%s: it is in force at %s", what, name)
			}
		}
		p.all("it works on: "+what, func(*member) bool { return true })
	}
	for _, name := range []string{"a", "c"} { // and not b
		if err := os.WriteFile(filepath.Join(filepath.Dir(p.hosts[name].holder.Path()), "key"), []byte("k"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	change := func(m *member, value any, key ...string) error {
		_, err := m.editor.Edit(t.Context(), author, func(f *edit.File, c *config.Config) error {
			return errors.Join(f.Set(6, "limits", "sender_sessions"), setting(value, key...)(f, c))
		})
		return err
	}
	err := change(a, "key", "models", "default", "api_key_file")
	if !errors.Is(err, edit.ErrRefused) || !strings.Contains(err.Error(), "host b: ") || !strings.Contains(err.Error(), "models.default.api_key_file") {
		t.Errorf("a file that one host does not have: %v", err)
	}
	unchanged("a file that one host does not have")
	if err := change(a, "http://ann:pass"+"word@127.0.0.1:1/", "channels", "irc", "server"); err == nil || !strings.Contains(err.Error(), "channels.irc.server looks like a secret") {
		t.Errorf("a secret: %v", err)
	}
	if n := p.count("SELECT count(*) FROM revisions WHERE convert_from(text_after, 'UTF8') LIKE '%pass" + "word%'"); n != 0 {
		t.Error("a secret is in the database")
	}
	unchanged("a secret")

	// A host of the release before, which renews its lease and follows nothing.
	p.sql("INSERT INTO hosts (id, incarnation, epoch, expires, proven) VALUES ('old', 'x', 1, 9000000000000000000, 'x')")
	if err := change(b, 65, "sandbox", "pids_limit"); err == nil || !strings.Contains(err.Error(), "host old runs a Flynn that cannot take a change") {
		t.Errorf("beside a host of the release before: %v", err)
	}
	p.sql("DELETE FROM hosts WHERE id = 'old'")
	unchanged("beside a host of the release before")

	// A host whose preparation hangs, while its lease lives.
	hangs, stop := context.WithCancel(context.Background())
	unsubscribe := b.holder.Subscribe(func(context.Context, *config.Config, *config.Config) (commit, rollback func(), err error) {
		<-hangs.Done()
		return nil, nil, hangs.Err()
	})
	began := time.Now()
	err = change(a, 66, "sandbox", "pids_limit")
	if err == nil || !strings.Contains(err.Error(), "host b is alive and has not answered in time") {
		t.Errorf("beside a host that hangs: %v", err)
	}
	if took := time.Since(began); took > 40*time.Second {
		t.Errorf("it took %s", took)
	}
	stop()
	unsubscribe()
	unchanged("beside a host that hangs")

	// An edit by hand that is refused stays in the file, and is not in force.
	p.rewrite(a, "sender_sessions = 5", "sender_sessions = 6\n[telemetry]\notlp_endpoint = \"http://127.0.0.1:1/\"\n[models.fast]\nprovider = \"openai\"\nmodel = \"m\"\napi_key_file = \"key\"")
	p.eventually("the file is refused", func() bool {
		_, err := a.holder.Refused()
		return err != nil && strings.Contains(err.Error(), "host b: ")
	})
	p.rewrite(a, p.textOf(a), texts["a"])
	p.eventually("the file is in force", func() bool { _, err := a.holder.Refused(); return err == nil })
	unchanged("edited by hand")
	if err := change(a, 64, "sandbox", "pids_limit"); err != nil {
		t.Errorf("a change that all can take: %v", err)
	}
	p.all("it has the change", func(m *member) bool { return sessionsOf(m) == 6 })
}

// TestAHostThatWasAwayTakesTheConfiguration: one that was stopped, one that was suspended, and one that differs until a person decides.
func TestAHostThatWasAwayTakesTheConfiguration(t *testing.T) {
	p := newParts(t, "[limits]\nsender_sessions = 5\n", "a", "b", "c")
	a, b, c := p.hosts["a"], p.hosts["b"], p.hosts["c"]
	b.stop()
	delete(p.hosts, "b")
	c.lease.set(true) // suspended: it is waited for until its lease is over
	began := time.Now()
	made, err := a.editor.Edit(t.Context(), author, setting(6, "limits", "sender_sessions"))
	if err != nil || strings.Join(made.Hosts, " ") != "a" {
		t.Fatalf("it is in force on %q: %v", made.Hosts, err)
	}
	owes(t, "without one that is suspended", time.Since(began), 5*time.Second)
	if sessionsOf(c) != 5 {
		t.Error("the suspended host has it")
	}
	c.lease.set(false)
	if _, err := a.editor.Edit(t.Context(), author, setting(7, "limits", "sender_sessions")); err != nil && !strings.Contains(err.Error(), "host c: ") {
		t.Fatal(err)
	} else if err != nil {
		t.Logf("while the other catches up: %v", err)
		p.all("it has caught up", func(m *member) bool { return sessionsOf(m) == 6 })
		if _, err := a.editor.Edit(t.Context(), author, setting(7, "limits", "sender_sessions")); err != nil {
			t.Fatal(err)
		}
	}
	p.keep = true
	b = p.start("b")
	p.all("it has both changes", func(m *member) bool { return sessionsOf(m) == 7 })
	if !strings.Contains(p.textOf(b), "sender_sessions = 7") {
		t.Errorf("it has\n%s", p.textOf(b))
	}

	// Edited by hand while it was stopped, it differs, and keeps the others from changes, until a person decides.
	b.stop()
	p.rewrite(b, "sender_sessions = 7", "sender_sessions = 8")
	b = p.start("b")
	p.eventually("it gets no work", func() bool { return b.member.Idle() == store.IdleDiffers })
	if _, err := a.editor.Edit(t.Context(), author, setting(9, "limits", "sender_sessions")); err == nil || !strings.Contains(err.Error(), "host b: ") || !strings.Contains(err.Error(), "flynn cluster accept") {
		t.Errorf("a change beside a host that differs: %v", err)
	}
	if made, err := b.editor.Edit(t.Context(), author, setting(10, "limits", "sender_sessions")); err != nil || len(made.Hosts) != 0 || sessionsOf(b) != 10 || sessionsOf(a) != 7 {
		t.Errorf("a change at a host that differs: %q, %v", made.Hosts, err)
	}
	if err := b.backend().Cluster.AcceptConfiguration(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.all("it has what was accepted", func(m *member) bool { return sessionsOf(m) == 10 })
	if _, err := c.editor.Edit(t.Context(), author, setting(11, "limits", "sender_sessions")); err != nil {
		t.Fatal(err)
	}
	p.all("it has the last change", func(m *member) bool { return sessionsOf(m) == 11 })

	// All are stopped, and one that missed a change starts alone.
	a.stop()
	if _, err := c.editor.Edit(t.Context(), author, setting(12, "limits", "sender_sessions")); err != nil {
		t.Fatal(err)
	}
	b.stop()
	c.stop()
	clear(p.hosts)
	p.start("a")
	p.all("it has what it missed", func(m *member) bool { return sessionsOf(m) == 12 })
}

// TestTwoChangesAtTheSameTime: one is made, and the other one is refused or made after it; no host has a mix of an older revision.
func TestTwoChangesAtTheSameTime(t *testing.T) {
	p := newParts(t, "[limits]\nsender_sessions = 5\n", "a", "b")
	won := 0
	for n := range 4 {
		results := make(chan error, 2)
		for i, m := range []*member{p.hosts["a"], p.hosts["b"]} {
			go func() {
				_, err := m.editor.Edit(context.Background(), author, setting(10+2*n+i, "limits", "sender_sessions"))
				results <- err
			}()
		}
		made := 0
		for range 2 {
			switch err := <-results; {
			case err == nil:
				made++
			case !errors.Is(err, store.ErrConflict) && !strings.Contains(err.Error(), "host "):
				t.Errorf("refused: %v", err)
			default:
				t.Log(err)
			}
		}
		won += made
		p.eventually("both have the same", func() bool {
			a, b := p.hosts["a"], p.hosts["b"]
			return sessionsOf(a) == sessionsOf(b) && a.current.Config().Revision == b.current.Config().Revision
		})
		if now := sessionsOf(p.hosts["a"]); made > 0 && now != 10+2*n && now != 11+2*n {
			t.Errorf("in force is %d", now)
		}
		p.all("it works", func(*member) bool { return true })
	}
	if won == 0 {
		t.Error("no change was made")
	}
}

// A person who can write to the database must not switch off what keeps him from installing programs.
func TestAHostThatRequiresSignaturesTakesNoChange(t *testing.T) {
	p := newParts(t, "[limits]\nsender_sessions = 5\n[policy_trust]\nrequire_signature = true\nkeys = [\"ed25519:"+base64.StdEncoding.EncodeToString(make([]byte, ed25519.PublicKeySize))+"\"]\n", "a", "b")
	a, b := p.hosts["a"], p.hosts["b"]
	text := p.textOf(b)
	_, err := a.editor.Edit(t.Context(), author, func(f *edit.File, _ *config.Config) error { return f.Set(false, "policy_trust", "require_signature") })
	if !errors.Is(err, edit.ErrRefused) || !strings.Contains(err.Error(), "host b: it requires signatures") || !strings.Contains(err.Error(), "flynn cluster accept") {
		t.Errorf("a change: %v", err)
	}
	p.all("both work on", func(m *member) bool { return m.current.Config().Signed() })

	// As if all hosts had agreed.
	p.sql("UPDATE revisions SET state = 'agreed'; UPDATE control SET revision = (SELECT max(number) FROM revisions), taken_by = 0")
	p.eventually("b says why it does not take it", func() bool { return strings.Contains(strings.Join(b.agreement.Lacks(), ""), "it requires signatures") })
	if p.textOf(b) != text || !b.current.Config().Signed() {
		t.Errorf("b has taken it:\n%s", p.textOf(b))
	}
}
