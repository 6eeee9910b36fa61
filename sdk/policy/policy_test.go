package policy_test

import (
	"strings"
	"testing"

	"github.com/flynnhost/flynn/sdk/policy"
	"github.com/flynnhost/flynn/sdk/policy/abi"
	"github.com/flynnhost/flynn/sdk/policy/policytest"
)

func TestFactsComeBackAsTheyWereStated(t *testing.T) {
	f := policytest.Route(t, policytest.Frame{
		abi.Channel: "irc", abi.Sender: "irc:bob", abi.Text: "hällo", abi.TextLen: 6, abi.Addressed: true,
		abi.Labels: []string{"web:example.com", "", "sender:guest"}, abi.Weekday: 5, abi.Seed: -7,
		abi.Candidate: "coder", abi.Agents: []string{"coder", "helper"},
	})
	for _, c := range []struct {
		name      string
		got, want any
	}{
		{"string", f.Channel(), "irc"},
		{"the id, not the name", f.Sender(), "irc:bob"},
		{"UTF-8", f.Text(), "hällo"},
		{"int", f.Weekday(), 5},
		{"negative int", f.Seed(), int64(-7)},
		{"bool", f.Addressed(), true},
		{"absent string", f.Account(), ""},
		{"absent int", f.MinuteOfDay(), 0},
		{"last field", f.Agents().Contains("helper"), true},
		{"no part of an item", f.Agents().Contains("help"), false},
		{"empty item", f.Labels().Contains(""), true},
		{"stated", f.Has(abi.Candidate), true},
		{"not stated", f.Has(abi.Account), false},
		{"beyond the table", f.Has(abi.Turns), false},
	} {
		if c.got != c.want {
			t.Errorf("%s: got %v, want %v", c.name, c.got, c.want)
		}
	}
}

func TestListKeepsOrderAndStopsEarly(t *testing.T) {
	f := policytest.Route(t, policytest.Frame{abi.Labels: []string{"a", "", "c", "d"}})
	var got []string
	for s := range f.Labels().All() {
		if s == "d" {
			break
		}
		got = append(got, s)
	}
	if strings.Join(got, "|") != "a||c" {
		t.Errorf("got %q", got)
	}
}

func TestFullTextAsksTheHostOnlyWhenCut(t *testing.T) {
	whole := strings.Repeat("long ", 5000)
	(&policytest.Host{Text: whole}).Use(t)
	f := policytest.Route(t, policytest.Frame{abi.Text: whole[:1024], abi.TextLen: len(whole)})
	if f.FullText() != whole {
		t.Errorf("a cut text came back with %d bytes, want %d", len(f.FullText()), len(whole))
	}
	short := policytest.Route(t, policytest.Frame{abi.Text: "short", abi.TextLen: 5})
	if got := short.FullText(); got != "short" {
		t.Errorf("a whole text came back as %q", got)
	}
}

func TestArgumentsByPointer(t *testing.T) {
	(&policytest.Host{Args: `{"command":"ls","a/b":[1.50,true,null]}`}).Use(t)
	f := policytest.Tool(t, policytest.Frame{abi.Tool: "shell.exec"})
	for _, c := range []struct {
		pointer, want string
		ok            bool
		kind          int
	}{
		{"/command", "ls", true, abi.KindString},
		{"/a~1b/0", "1.50", true, abi.KindNumber},
		{"/a~1b/1", "true", true, abi.KindBool},
		{"/a~1b/2", "null", true, abi.KindNull},
		{"/a~1b", "[1.50,true,null]", true, abi.KindArray},
		{"/a~1b/3", "", false, abi.KindAbsent},
		{"/a~1b/01", "", false, abi.KindAbsent},
		{"command", "", false, abi.KindAbsent},
	} {
		got, ok := f.Arg(c.pointer)
		if got != c.want || ok != c.ok || f.ArgKind(c.pointer) != c.kind {
			t.Errorf("%s: got %q, %v, kind %d", c.pointer, got, ok, f.ArgKind(c.pointer))
		}
	}
}

func TestLazyReadingsStayValidTogether(t *testing.T) {
	big := strings.Repeat("b", 10<<10)
	(&policytest.Host{Data: map[string]string{"small": "s", "big": big}}).Use(t)
	small, _ := policy.Data("small")
	large, _ := policy.Data("big")
	again, _ := policy.Data("small")
	if small != "s" || large != big || again != "s" {
		t.Errorf("a later reading changed an earlier one: %q, %d bytes, %q", small, len(large), again)
	}
	if _, ok := policy.Data("none"); ok {
		t.Error("an absent key is present")
	}
}

func TestABadPatternFailsThePolicy(t *testing.T) {
	(&policytest.Host{Match: func(int, string, string) int { return -1 }}).Use(t)
	defer func() {
		if recover() == nil {
			t.Error("a bad pattern quietly did not match")
		}
	}()
	policy.Glob("[", "x")
}

func FuzzFacts(f *testing.F) {
	f.Add(policytest.Frame{abi.Text: "x", abi.Labels: []string{"a", "b"}, abi.Seed: 1, abi.Addressed: true}.Encode(f, abi.FrameRoute))
	f.Add(policytest.Frame{abi.Tool: "shell.exec", abi.Labels: []string{}}.Encode(f, abi.FrameTool))
	f.Add([]byte("FLN1"))
	f.Fuzz(func(t *testing.T, frame []byte) {
		read := 0
		common := func(facts policy.Facts) {
			for _, s := range []string{facts.Channel(), facts.Sender(), facts.Text(), facts.Zone(), facts.Account()} {
				read = max(read, len(s))
			}
			facts.TextLen()
			facts.Seed()
			facts.Addressed()
			for id := range abi.Field(70) {
				facts.Has(id)
			}
			for s := range facts.Labels().All() {
				read = max(read, len(s))
			}
		}
		if facts, ok := policy.ReadRoute(frame); ok {
			common(facts.Facts)
			facts.Agents().Contains("coder")
			read = max(read, len(facts.Candidate()))
		}
		if facts, ok := policy.ReadTool(frame); ok {
			common(facts.Facts)
			read = max(read, len(facts.Tool()), len(facts.ArgsDigest()))
			facts.Turns()
		}
		if read > len(frame) {
			t.Errorf("a frame of %d bytes gave a string of %d", len(frame), read)
		}
	})
}
