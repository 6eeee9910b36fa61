package approval

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/store"
	"github.com/flynnhost/flynn/host/tool/consent"
)

// memoryGrants is a store of approvals and grants that forgets at the end of the test; the suite of package storetest is about the
// real ones.
type memoryGrants struct {
	memoryStore
	grants []consent.Grant
	audit  []consent.AuditRow
}

func (m *memoryGrants) GrantApproval(ctx context.Context, g consent.Grant, row consent.AuditRow) error {
	if err := m.MoveApproval(ctx, g.ID, consent.ApprovalPending, consent.ApprovalConsumed, g.Granter, row.At); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.find(g.ID).Scope = g.Scope
	m.grants, m.audit = append(m.grants, g), append(m.audit, row)
	return nil
}

func (m *memoryGrants) Grant(_ context.Context, id string) (consent.Grant, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, g := range m.grants {
		if g.ID == id {
			return g, nil
		}
	}
	return consent.Grant{}, store.ErrNotFound
}

func (m *memoryGrants) OpenGrants(_ context.Context, agent, tool string, now time.Time) ([]consent.Grant, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var list []consent.Grant
	for _, g := range m.grants {
		if g.Agent == agent && g.Tool == tool && g.Open(now) {
			list = append(list, g)
		}
	}
	return list, nil
}

func (m *memoryGrants) ListGrants(context.Context, int) ([]consent.Grant, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.grants), nil
}

func (m *memoryGrants) UseGrant(_ context.Context, id string, row consent.AuditRow) error {
	return m.change(id, row, func(g *consent.Grant) { g.Uses++ })
}

func (m *memoryGrants) EndGrant(_ context.Context, id string, row consent.AuditRow) error {
	return m.change(id, row, func(g *consent.Grant) { g.Ended, g.EndedBy = row.At, row.Actor })
}

func (m *memoryGrants) change(id string, row consent.AuditRow, change func(*consent.Grant)) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range m.grants {
		if g := &m.grants[i]; g.ID == id && g.Open(row.At) {
			change(g)
			m.audit = append(m.audit, row)
			return nil
		}
	}
	return store.ErrConflict
}

// kit is a approvals over a store, with a clock of its own and the programs of the system.
type kit struct {
	*Service
	t     *testing.T
	store interface {
		consent.Approvals
		consent.Grants
	}
	work string // working directory of calls
	bin  string // a folder with programs that belong to the test
	now  time.Time
}

func newBureau(t *testing.T) *kit {
	t.Helper()
	b := &kit{t: t, work: t.TempDir(), bin: t.TempDir(), now: time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)}
	t.Setenv("PATH", "/usr/local/bin:/usr/bin:/bin")
	b.store = &memoryGrants{}
	b.restart()
	return b
}

func (b *kit) program(name string) {
	b.t.Helper()
	if err := os.WriteFile(filepath.Join(b.bin, name), []byte("#!/bin/sh\n"), 0o755); err != nil {
		b.t.Fatal(err)
	}
}

// restart makes the approvals anew, as a process does that starts.
func (b *kit) restart() {
	b.t.Helper()
	var err error
	if b.Service, err = New(Config{Store: b.store, Grants: b.store, Now: func() time.Time { return b.now }}); err != nil {
		b.t.Fatal(err)
	}
}

func (b *kit) ask(command string) Ask {
	args, _ := json.Marshal(map[string]any{"command": command})
	return Ask{
		Binding: Binding{Tool: "shell.exec", Args: args, Dir: b.work, Agent: "coder", Policy: "p1", Where: "host", Sandbox: "host"},
		Turn:    "t1", Session: "irc:#x:coder", Requester: "irc:bob", Reach: ReachShell, Reasons: []string{"guard: commands ask"},
	}
}

// grant has a call asked for and leased.
func (b *kit) grant(ask Ask, l Lease) (consent.Approval, error) {
	b.t.Helper()
	a, err := b.Request(b.t.Context(), ask)
	if err != nil {
		b.t.Fatal(err)
	}
	return a, b.Grant(b.t.Context(), a.ID, l, "irc:ann")
}

func (b *kit) covered(ask Ask) bool {
	b.t.Helper()
	_, ok, err := b.Covering(b.t.Context(), ask)
	if err != nil {
		b.t.Fatal(err)
	}
	return ok
}

var (
	forSession = Lease{Scope: consent.GrantSession}
	forGood    = Lease{Scope: consent.GrantStanding}
)

func withCommand(a *Ask, command string) {
	a.Args, _ = json.Marshal(map[string]any{"command": command})
}

func TestALeaseCoversWhatWasShownAndNothingElse(t *testing.T) {
	for _, c := range []struct {
		name              string
		change            func(*kit, *Ask)
		session, standing bool
	}{
		{"the same call", func(*kit, *Ask) {}, true, true},
		{"another turn", func(_ *kit, a *Ask) { a.Turn = "t2" }, true, true},
		{"another session", func(_ *kit, a *Ask) { a.Session = "irc:#y:coder" }, false, true},
		{"other arguments", func(_ *kit, a *Ask) { withCommand(a, "ls -la /") }, false, false},
		{"the same words, written otherwise", func(_ *kit, a *Ask) { withCommand(a, "ls  -l") }, false, false},
		{"a further argument", func(_ *kit, a *Ask) { a.Args = json.RawMessage(`{"command":"ls -l","cwd":"/"}`) }, false, false},
		{"another tool", func(_ *kit, a *Ask) { a.Tool = "process.start" }, false, false},
		{"another agent", func(_ *kit, a *Ask) { a.Agent = "other" }, false, false},
		{"another folder", func(_ *kit, a *Ask) { a.Dir = "/" }, false, false},
		{"another place", func(_ *kit, a *Ask) { a.Where = "sandbox" }, false, false},
		{"another sandbox", func(_ *kit, a *Ask) { a.Sandbox = "0123" }, false, false},
		{"no sandbox known", func(_ *kit, a *Ask) { a.Sandbox = "" }, false, false},
		{"other policies", func(_ *kit, a *Ask) { a.Policy = "p2" }, false, false},
		{"another requester", func(_ *kit, a *Ask) { a.Requester = "irc:eve" }, false, false},
		{"a further reason to ask", func(_ *kit, a *Ask) { a.Reasons = append(a.Reasons, "the session has read a web page") }, false, false},
		{"a reason less", func(_ *kit, a *Ask) { a.Reasons = nil }, true, true},
		{"the tool's class is another", func(_ *kit, a *Ask) { a.Reach = ReachOnce }, false, false},
		{"a day later", func(b *kit, _ *Ask) { b.now = b.now.Add(SessionTime) }, false, true},
		{"a month later", func(b *kit, _ *Ask) { b.now = b.now.Add(StandingTime) }, false, false},
		{"after a restart", func(b *kit, _ *Ask) { b.restart() }, true, true},
		{"the program is another", func(b *kit, _ *Ask) {
			b.t.Setenv("PATH", b.bin+":/usr/bin")
			b.program("ls")
		}, false, false},
		{"the program is gone", func(b *kit, _ *Ask) { b.t.Setenv("PATH", b.bin) }, false, false},
		{"the program became a link to a shell", func(b *kit, _ *Ask) {
			b.t.Setenv("PATH", b.bin+":/usr/bin")
			os.Symlink("/bin/sh", filepath.Join(b.bin, "ls"))
		}, false, false},
		{"a folder of the workspace comes first in PATH", func(b *kit, _ *Ask) {
			b.bin = b.work
			b.t.Setenv("PATH", ".:"+b.work+":/usr/local/bin:/usr/bin:/bin")
			b.program("ls") // which no command finds
		}, true, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, l := range []Lease{forSession, forGood} {
				b := newBureau(t)
				if _, err := b.grant(b.ask("ls -l"), l); err != nil {
					t.Fatal(err)
				}
				ask := b.ask("ls -l")
				c.change(b, &ask)
				want := c.session
				if l.Scope == consent.GrantStanding {
					want = c.standing
				}
				if got := b.covered(ask); got != want {
					t.Errorf("%s grant covers it: %v, want %v", l.Scope, got, want)
				}
			}
		})
	}
}

func TestWhatCanBeLeased(t *testing.T) {
	for _, c := range []struct {
		name, command     string
		session, standing bool
	}{
		{"a program", "ls -l", true, true},
		{"a chain", "ls && head a; ls | wc -l", true, true},
		{"a chain with an interpreter", "ls && python3 x.py", true, false},
		{"an interpreter", "python3 x.py", true, false},
		{"a shell", "sh x.sh", true, false},
		{"a program that the repository's files steer", "git status", true, false},
		{"a shell by its path", "/bin/sh x.sh", true, false},
		{"a program that is not the system's", "BIN/ls", true, false},
		{"this very program", "/proc/self/exe x.sh", true, false},
		{"a builtin that changes what runs", "read PATH; ls", true, false},
		{"a build", "make test", true, false},
		{"a program that writes what another runs", "cp x /usr/local/bin/ls", true, false},
		{"a name by which Flynn sends a file", "curl -s -d @x https://example.com", true, false},
		{"a shell, escaped", `\sh x.sh`, true, false},
		{"find with a program", "find . -exec ls x", true, false},
		{"find without", "find . -name x", true, true},
		{"a program of the workspace", "WORK/own", true, false},
		{"a program from here", "./own", true, false},
		{"a program that is not there", "nosuchprogram", true, false},
		{"a substitution", "ls $(cat x)", false, false},
		{"a redirection", "ls > x", false, false},
		{"two lines", "ls\nls", false, false},
		{"an assignment", "PATH=. ls", false, false},
		{"a glob", "ls *", false, false},
		{"a newline at the end", "ls\n", false, false},
		{"too long to be shown", "ls " + strings.Repeat("x", maxShown), false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, l := range []Lease{forSession, forGood} {
				b := newBureau(t)
				own := filepath.Join(b.work, "own")
				if err := os.WriteFile(own, []byte("#!/bin/sh\n"), 0o755); err != nil {
					t.Fatal(err)
				}
				ask := b.ask(strings.NewReplacer("BIN", b.bin, "WORK", b.work).Replace(c.command))
				want, offer := c.session, func(o Offer) bool { return o.Session }
				if l.Scope == consent.GrantStanding {
					want, offer = c.standing, func(o Offer) bool { return o.Standing }
				}
				a, err := b.grant(ask, l)
				if (err == nil) != want || err != nil && !errors.Is(err, ErrNoLease) {
					t.Errorf("%s: %v, want it granted: %v", l.Scope, err, want)
				}
				o := b.Offer(a)
				if got := offer(o); got != want {
					t.Errorf("%s is offered: %v, want %v", l.Scope, got, want)
				}
				if shell := o.SessionShell != ""; shell != (c.session && !c.standing) {
					t.Errorf("a grant for the session is called a shell: %q", o.SessionShell)
				}
				if b.covered(ask) != want {
					t.Errorf("%s covers: %v", l.Scope, !want)
				}
				if err != nil { // the request waits on, and can be granted once
					if err := b.Decide(t.Context(), a.ID, true, "irc:ann"); err != nil {
						t.Errorf("once: %v", err)
					}
				}
			}
		})
	}
}

func TestReachOfTools(t *testing.T) {
	for reach, want := range map[string][2]bool{
		ReachOnce: {false, false}, ReachSession: {true, false}, ReachCall: {true, true}, "new": {true, true},
	} {
		b := newBureau(t)
		ask := b.ask("x")
		ask.Tool, ask.Reach, ask.Args = "wiki.write", reach, json.RawMessage(`{"page":"a"}`)
		a, err := b.Request(t.Context(), ask)
		if err != nil {
			t.Fatal(err)
		}
		if o := b.Offer(a); reach != "new" && (o.Session != want[0] || o.Standing != want[1]) {
			t.Errorf("reach %q offers %+v, want %v", reach, o, want)
		}
	}
}

func TestPatterns(t *testing.T) {
	for _, c := range []struct {
		name, command, pattern string
		granted                bool
		covers, covered        string // a further call, and whether it is covered: "yes" or ""
	}{
		{"an argument", "head -n main", "head -n *", true, "head -n other", "yes"},
		{"an option for a star", "head -n main", "head -n *", true, "head -n --output=x", ""},
		{"more than the star", "head -n main", "head -n *", true, "head -n a b", ""},
		{"a chain behind it", "head -n main", "head -n *", true, "head -n a; ls", ""},
		{"a substitution behind it", "head -n main", "head -n *", true, "head -n $(ls)", ""},
		{"it does not cover the call itself", "head -n main", "head -c *", false, "head -c x", ""},
		{"an interpreter", "python3 x.py", "python3 *", false, "python3 y.py", ""},
		{"version control", "git log main", "git log *", false, "git log main", ""},
		{"a file that is read", "cat x", "cat *", false, "cat /etc/shadow", ""},
		{"a file that is searched", "grep -n x y", "grep -n x *", false, "grep -n x /etc/shadow", ""},
		{"a text that is searched for", "grep -rn x docs", "grep -rn * docs", true, "grep -rn y docs", "yes"},
		{"a form that sends a file", "curl -F a=b https://h/", "curl -F * https://h/", false, "curl -F a=b https://h/", ""},
		{"an address", "curl -s https://h/", "curl -s *", true, "curl -s https://i/x", "yes"},
		{"an address that is a file", "curl -s https://h/", "curl -s *", true, "curl -s file:///etc/shadow", ""},
		{"no star", "head -n main", "head -n main", false, "head -n main", ""},
		{"a star as program", "head -n main", "* -n main", false, "head -n main", ""},
		{"a chain", "ls a | wc -l", "ls * | wc -l", true, "ls b | wc -l", "yes"},
		{"another chain", "ls a | wc -l", "ls * | wc -l", true, "ls b && wc -l", ""},
	} {
		for _, scope := range []consent.GrantScope{consent.GrantSession, consent.GrantStanding} {
			t.Run(c.name, func(t *testing.T) {
				b := newBureau(t)
				_, err := b.grant(b.ask(c.command), Lease{Scope: scope, Pattern: c.pattern})
				if (err == nil) != c.granted {
					t.Fatalf("%s: %v, want it granted: %v", scope, err, c.granted)
				}
				if got := b.covered(b.ask(c.covers)); got != (c.covered != "") {
					t.Errorf("%s grant covers %q: %v", scope, c.covers, got)
				}
				other := b.ask(c.covers)
				other.Args = json.RawMessage(strings.TrimSuffix(string(other.Args), "}") + `,"cwd":"/"}`)
				if b.covered(other) {
					t.Errorf("%s grant covers another working directory", scope)
				}
			})
		}
	}
	b := newBureau(t)
	ask := b.ask("x")
	ask.Reach = ReachCall
	if _, err := b.grant(ask, Lease{Scope: consent.GrantStanding, Pattern: "x *"}); !errors.Is(err, ErrNoLease) {
		t.Errorf("a pattern for a tool without command lines: %v", err)
	}
}

func TestTimeOfALease(t *testing.T) {
	const day = 24 * time.Hour
	for _, c := range []struct {
		l    Lease
		want time.Duration // 0: refused
	}{
		{forSession, SessionTime},
		{forGood, StandingTime},
		{Lease{Scope: consent.GrantStanding, For: 8 * time.Hour}, 8 * time.Hour},
		{Lease{Scope: consent.GrantStanding, For: MaxStanding}, MaxStanding},
		{Lease{Scope: consent.GrantStanding, For: MaxStanding + 1}, 0},
		{Lease{Scope: consent.GrantStanding, For: time.Second}, 0},
		{Lease{Scope: consent.GrantStanding, For: -day}, 0},
		{Lease{Scope: consent.GrantSession, For: day}, 0},
		{Lease{Scope: "ever"}, 0},
		{Lease{Pattern: "ls *"}, 0},
	} {
		b := newBureau(t)
		a, err := b.grant(b.ask("ls -l"), c.l)
		if (err == nil) != (c.want > 0) {
			t.Errorf("%+v: %v", c.l, err)
			continue
		}
		if c.want == 0 {
			continue
		}
		if g, err := b.store.Grant(t.Context(), a.ID); err != nil || g.Expires.Sub(a.Created) != c.want {
			t.Errorf("%+v is good for %s (%v), want %s", c.l, g.Expires.Sub(a.Created), err, c.want)
		}
	}
}

func TestAnswersToALease(t *testing.T) {
	type step struct {
		who  string
		do   func(*kit, string, string) error
		want error
	}
	lease := func(l Lease) func(*kit, string, string) error {
		return func(b *kit, id, who string) error { return b.Grant(b.t.Context(), id, l, who) }
	}
	decide := func(grant bool) func(*kit, string, string) error {
		return func(b *kit, id, who string) error { return b.Decide(b.t.Context(), id, grant, who) }
	}
	for _, c := range []struct {
		name   string
		steps  []step
		grants int
	}{
		{"double click", []step{{"irc:ann", lease(forSession), nil}, {"irc:ann", lease(forSession), nil}}, 1},
		{"another owner agrees", []step{{"irc:ann", lease(forGood), nil}, {"irc:carol", lease(forGood), nil}}, 1},
		{"once, then for good", []step{{"irc:ann", decide(true), nil}, {"irc:ann", lease(forGood), ErrDecided}}, 0},
		{"session, then for good", []step{{"irc:ann", lease(forSession), nil}, {"irc:ann", lease(forGood), ErrDecided}}, 1},
		{"for good, then once", []step{{"irc:ann", lease(forGood), nil}, {"irc:ann", decide(true), nil}}, 1},
		{"for good, then denied", []step{{"irc:ann", lease(forGood), nil}, {"irc:ann", decide(false), ErrDecided}}, 1},
		{"denied, then for good", []step{{"irc:ann", decide(false), nil}, {"irc:ann", lease(forGood), ErrDecided}}, 0},
		{"the requester", []step{{"irc:bob", lease(forSession), ErrSelf}}, 0},
		{"the requester, for good", []step{{"irc:bob", lease(forGood), ErrSelf}}, 0},
		{"too late", []step{{"", func(b *kit, _, _ string) error { b.now = b.now.Add(time.Hour); return nil }, nil}, {"irc:ann", lease(forGood), ErrExpired}}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBureau(t)
			a, err := b.Request(t.Context(), b.ask("ls -l"))
			if err != nil {
				t.Fatal(err)
			}
			for i, s := range c.steps {
				if err := s.do(b, a.ID, s.who); !errors.Is(err, s.want) {
					t.Errorf("step %d: %v, want %v", i, err, s.want)
				}
			}
			if list, err := b.Grants(t.Context()); err != nil || len(list) != c.grants {
				t.Errorf("%d grants (%v), want %d", len(list), err, c.grants)
			}
		})
	}
}

func TestUsesAreCountedAndRevokingEndsThem(t *testing.T) {
	b := newBureau(t)
	ask := b.ask("ls -l")
	a, err := b.grant(ask, forGood)
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			if g, ok, err := b.Use(context.Background(), ask); !ok || err != nil || g.ID != a.ID {
				t.Errorf("use: %v, %v, %v", g.ID, ok, err)
			}
		})
	}
	all.Wait()
	if g, err := b.store.Grant(t.Context(), a.ID); err != nil || g.Uses != 4 {
		t.Errorf("%d uses (%v), want 4", g.Uses, err)
	}
	for range 2 {
		if err := b.Revoke(t.Context(), a.ID, "web:owner"); err != nil {
			t.Errorf("revoke: %v", err)
		}
	}
	if _, ok, err := b.Use(t.Context(), ask); ok || err != nil {
		t.Errorf("a revoked grant is used: %v, %v", ok, err)
	}
	if err := b.Revoke(t.Context(), "none", "web:owner"); !errors.Is(err, ErrNoGrant) {
		t.Errorf("revoke what is not there: %v", err)
	}
	rows := b.store.(*memoryGrants).audit
	count := map[string]int{}
	for _, r := range rows {
		count[r.Kind]++
	}
	if count[consent.AuditGranted] != 1 || count[consent.AuditGrantUsed] != 4 || count[consent.AuditGrantEnded] != 1 || len(rows) != 6 {
		t.Errorf("audit: %v", count)
	}
	if rows[0].Actor != "irc:ann" || rows[1].Actor != "irc:bob" || !strings.Contains(rows[0].Detail, "ls -l") {
		t.Errorf("audit: %+v", rows[:2])
	}
}

func TestANewConversationEndsTheGrantsOfItsSession(t *testing.T) {
	b := newBureau(t)
	for _, l := range []Lease{forSession, forGood} {
		ask := b.ask("ls -l")
		ask.Turn = string(l.Scope)
		if _, err := b.grant(ask, l); err != nil {
			t.Fatal(err)
		}
		other := ask
		other.Session = "irc:#x:y:coder"
		if _, err := b.grant(other, l); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.EndSessions(t.Context(), "irc:#x", "irc:ann"); err != nil {
		t.Fatal(err)
	}
	list, err := b.Grants(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range list {
		if ends := g.Scope == consent.GrantSession && g.Session == "irc:#x:coder"; g.Open(b.now) == ends {
			t.Errorf("%s grant of %s is open: %v", g.Scope, g.Session, !ends)
		}
	}
}

func TestAnOldRequestIsGrantedOnceOnly(t *testing.T) {
	b := newBureau(t)
	ask := b.ask("ls -l")
	ask.Reach, ask.Sandbox = "", "" // as rows of an older flynn are
	a, err := b.Request(t.Context(), ask)
	if err != nil {
		t.Fatal(err)
	}
	if o := b.Offer(a); o.Session || o.Standing {
		t.Errorf("offers %+v", o)
	}
}

// A line that is approved for a sandbox follows what the agent has written in HOME, which is the workspace there; the notice says so.
func TestNoticeNamesTheFilesOfHome(t *testing.T) {
	b := newBureau(t)
	for where, want := range map[string]bool{"sandbox": true, "builds": true, "host": false} {
		ask := b.ask("curl -s https://example.com")
		ask.Where, ask.Sandbox = where, "digest"
		a, err := b.Request(t.Context(), ask)
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range []string{Text(a, b.Offer(a), b.now), Details(a, b.Offer(a), b.now)} {
			if got := strings.Contains(strings.ToLower(text), "not shown, but followed: "+strings.ToLower(plain(".curlrc (curl)"))); got != want {
				t.Errorf("on %s the notice names the file: %v, want %v:\n%s", where, got, want, text)
			}
		}
	}
}

func TestDetailsShowWhatIsCovered(t *testing.T) {
	b := newBureau(t)
	a, err := b.Request(t.Context(), b.ask("ls -l"))
	if err != nil {
		t.Fatal(err)
	}
	text := Details(a, b.Offer(a), b.now)
	for _, want := range []string{
		"/approve " + a.ID + "`", "/approve " + a.ID + " session", "/approve " + a.ID + " always", "\nls -l\n", "in the session irc:#x:coder",
		"/bin/ls", "until 2026-12-21", "irc:bob", b.work, "guard: commands ask",
	} {
		if !strings.Contains(text, plain(want)) && !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
	if a, err = b.Request(t.Context(), b.ask("make test")); err != nil {
		t.Fatal(err)
	}
	text = Details(a, b.Offer(a), b.now)
	for _, want := range []string{"as good as a shell on the host: make may run other programs", "Makefile (make)"} {
		if strings.Contains(text, "always`") || !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
	if text := Text(a, b.Offer(a), b.now); !strings.Contains(text, "session` (as good as a shell)") || !strings.Contains(text, "Makefile (make)") {
		t.Errorf("the notice is\n%s", text)
	}
}
