package command

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/tool/approval"
	"github.com/flynnhost/flynn/host/tool/consent"
)

func TestReadLease(t *testing.T) {
	const day = 24 * time.Hour
	session, standing := consent.GrantSession, consent.GrantStanding
	for _, c := range []struct {
		arg  string
		want approval.Lease
		ok   bool
	}{
		{"ABC", approval.Lease{}, true},
		{"ABC once", approval.Lease{}, true},
		{"ABC  session", approval.Lease{Scope: session}, true},
		{"ABC Session", approval.Lease{Scope: session}, true},
		{"ABC always", approval.Lease{Scope: standing}, true},
		{"ABC always 8h", approval.Lease{Scope: standing, For: 8 * time.Hour}, true},
		{"ABC always 30d grep -rn * docs", approval.Lease{Scope: standing, For: 30 * day, Pattern: "grep -rn * docs"}, true},
		{"ABC always grep -rn * docs", approval.Lease{Scope: standing, Pattern: "grep -rn * docs"}, true},
		{"ABC session ls *", approval.Lease{Scope: session, Pattern: "ls *"}, true},
		{"ABC always 2w", approval.Lease{Scope: standing, For: 14 * day}, true},
		{"ABC once ls", approval.Lease{}, false},
		{"ABC forever", approval.Lease{}, false},
		{"ABC 30d", approval.Lease{}, false},
		{"A/B always", approval.Lease{}, false},
		{"", approval.Lease{}, false},
	} {
		id, got, err := readLease(c.arg)
		if got != c.want && c.ok || (err == nil) != c.ok || c.ok && id != "ABC" {
			t.Errorf("%q: %q %+v, %v", c.arg, id, got, err)
		}
	}
}

func TestReadSpan(t *testing.T) {
	for s, want := range map[string]time.Duration{
		"15m": 15 * time.Minute, "1h": time.Hour, "30d": 720 * time.Hour, "2w": 336 * time.Hour,
		"": 0, "m": 0, "15": 0, "0m": 0, "-5m": 0, "+5m": 0, "1.5h": 0, "999999d": 0, "5s": 0, "5M": 0, "0x1h": 0,
	} {
		if got, ok := ReadSpan(s); got != want || ok != (want > 0) {
			t.Errorf("%q is %v, %v", s, got, ok)
		}
	}
}

func FuzzReadLease(f *testing.F) {
	f.Add("ABC always 30d grep -rn * docs")
	f.Add("ABC session")
	f.Fuzz(func(t *testing.T, arg string) {
		id, l, err := readLease(arg)
		if err == nil && (id == "" || l.For < 0 || l.For > 0 && l.Scope != consent.GrantStanding || l.Scope == "" && l != approval.Lease{}) {
			t.Errorf("%q is %q %+v", arg, id, l)
		}
	})
}

func TestLeasesInChat(t *testing.T) {
	const plain = `{"command":"true x"}`
	for _, c := range []struct {
		name, args, who, text, want string
		state                       consent.ApprovalState
	}{
		{"session", plain, "ann", "/approve ID session", "in the session irc:#busy:coder", consent.ApprovalConsumed},
		{"always", plain, "ann", "/approve ID always", "builtin true", consent.ApprovalConsumed},
		{"a pattern", plain, "ann", "/approve ID always 30d true *", `fit "true *"`, consent.ApprovalConsumed},
		{"a pattern that does not fit", plain, "ann", "/approve ID always false *", "does not cover", consent.ApprovalPending},
		{"an interpreter", `{"command":"sh x"}`, "ann", "/approve ID always", "sh may run other programs", consent.ApprovalPending},
		{"text that is not understood", `{"command":"ls > x"}`, "ann", "/approve ID session", "is not understood", consent.ApprovalPending},
		{"too long a time", plain, "ann", "/approve ID always 999d", "365 days", consent.ApprovalPending},
		{"another word", plain, "ann", "/approve ID forever", "is not once", consent.ApprovalPending},
		{"a guest", plain, "bob", "/approve ID always", "Only an owner", consent.ApprovalPending},
		{"a denial has no scope", plain, "ann", "/deny ID always", "Write only", consent.ApprovalPending},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newHouse(t)
			id := h.ask("irc:bob", c.args)
			got := h.say("e1", c.who, strings.ReplaceAll(c.text, "ID", id), message.DM)
			if !strings.Contains(got, c.want) {
				t.Errorf("says %q, want %q in it", got, c.want)
			}
			if a, err := h.store.Approval(t.Context(), id); err != nil || a.State != c.state {
				t.Errorf("the request is %s (%v), want %s", a.State, err, c.state)
			}
		})
	}
}

// TestALongCallIsShownBeforeItIsApproved: the notice of a request is short, and nobody approves what he cannot see.
func TestALongCallIsShownBeforeItIsApproved(t *testing.T) {
	h := newHouse(t)
	lines := strings.Repeat(`echo \"a & b\"\n`, 40)
	id := h.ask("irc:bob", `{"command":"`+lines+`"}`)
	for i, c := range []struct{ who, text, want string }{
		{"bob", "/show ID", "Only an owner"},
		{"ann", "/approve ID", "`/show ID` does"},
		{"ann", "/approve ID session", "`/show ID` does"},
		{"ann", "/show NONE", "no such request"},
		{"ann", "/show ID", "echo \"a & b\"\necho"},
		{"ann", "/approve ID", "Approved"},
		{"ann", "/show ID", "was already answered"},
	} {
		got := h.say(fmt.Sprint("e", i), c.who, strings.ReplaceAll(c.text, "ID", id), message.DM)
		if want := strings.ReplaceAll(c.want, "ID", id); !strings.Contains(got, want) {
			t.Errorf("%s is answered with %q, want %q in it", c.text, got, want)
		}
	}
	long := h.ask("irc:bob", `{"command":"`+strings.Repeat("x", 5000)+`"}`)
	for i, text := range []string{"/show ", "/approve "} {
		if got := h.say(fmt.Sprint("long", i), "ann", text+long, message.DM); !strings.Contains(got, "flynn approvals show "+long) {
			t.Errorf("%sis answered with %q", text, got)
		}
	}
	if got := h.say("deny", "ann", "/deny "+long, message.DM); !strings.Contains(got, "Denied") {
		t.Errorf("it is answered with %q", got)
	}
}

func TestElevatedInChat(t *testing.T) {
	h := newHouse(t)
	for i, c := range []struct {
		who, text string
		kind      message.Kind
		want      string
	}{
		{"ann", "/elevated", message.DM, "is off"},
		{"bob", "/elevated ask 15m", message.DM, "You may not."},
		{"ann", "/elevated full", message.DM, "Write"},
		{"ann", "/elevated ask never", message.DM, "Write"},
		{"ann", "/elevated ask 15m now", message.DM, "Write"},
		{"ann", "/elevated off 15m", message.DM, "Write"},
		{"ann", "/elevated ask", message.Group, "each after an approval"},
		{"bob", "/status", message.Group, "Elevated mode (ask)"},
		{"ann", "/elevated on 5m", message.Group, "WITHOUT an approval"},
		{"ann", "/elevated", message.Group, "Elevated mode (on)"},
		{"bob", "/elevated off", message.Group, "Only owners"},
		{"ann", "/elevated off", message.Group, "has ended"},
		{"ann", "/elevated off", message.Group, "is off"},
	} {
		if got := h.say(string(rune('a'+i)), c.who, c.text, c.kind); !strings.Contains(got, c.want) {
			t.Errorf("%s says %s: %q, want %q in it", c.who, c.text, got, c.want)
		}
	}
}

func TestNewEndsWhatWasAllowed(t *testing.T) {
	h := newHouse(t)
	id := h.ask("irc:bob", `{"command":"true x"}`)
	h.say("a", "ann", "/approve "+id+" session", message.DM)
	h.say("b", "ann", "/elevated ask", message.DM)
	h.service.Order(t.Context(), "irc:#busy", h.accept("c", "ann", "/new", message.DM))
	if h.elevated != nil {
		t.Error("elevated mode outlives /new")
	}
	if g, err := h.store.Grant(t.Context(), id); err != nil || g.Open(time.Now()) || g.EndedBy != "irc:ann" {
		t.Errorf("the grant for the session is %+v, %v", g, err)
	}
}
