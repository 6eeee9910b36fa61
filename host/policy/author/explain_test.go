package author

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/flynnhost/flynn/host/policy"
)

// Explain tells apart what a decision hangs on, what was only looked at, and what the policy never saw; in every language.
func TestExplainNamesTheFactsThatMatter(t *testing.T) {
	t.Parallel()
	for language, calls := range map[string]string{"c": "data trace", "go": "data trace", "rust": "data trace", "assemblyscript": "data trace", "rego": "input"} {
		t.Run(language, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "mine")
			if err := New(dir, language, policy.KindTool); err != nil {
				t.Fatal(err)
			}
			mustBuild(t, dir)
			x, err := ExplainCase(t.Context(), dir, "a guest may not use the tool")
			if err != nil {
				t.Fatal(err)
			}
			want := map[string]Use{"tool": Decides, "text": Unread, "sender": Unread, "weekday": Unread, "effect": Unread, "labels": Unread}
			for _, f := range x.Facts {
				if use, ok := want[f.Name]; ok && f.Use != use {
					t.Errorf("%s = %s: %s, want %s", f.Name, f.Value, f.Use, use)
				}
				// Without a role the guest is still not the owner: the policy looks, and answers the same.
				if f.Name == "role" && (f.Use != Read || f.Value != `"guest"`) {
					t.Errorf("role = %s: %s, want %s", f.Value, f.Use, Read)
				}
			}
			if len(x.Facts) < 20 || !x.Outcome.Deny || x.Outcome.Rule != 1 {
				t.Errorf("%d facts, outcome %v", len(x.Facts), x.Outcome)
			}
			var made []string
			for _, c := range x.Calls {
				made = append(made, c.Name)
			}
			if got := strings.Join(made, " "); got != calls {
				t.Errorf("calls %q, want %q", got, calls)
			}
		})
	}
}

func TestExplainAFrame(t *testing.T) {
	dir := filepath.Join("testdata", "conformance-c")
	mustBuild(t, dir)
	f := conformanceFacts()
	f.Text, f.Attachments, f.Labels = "agent", 1, []string{"web:example.com"}
	p, err := OpenSubject(dir)
	if err != nil {
		t.Fatal(err)
	}
	a, err := p.loadCase(t.Context(), Case{})
	if err != nil {
		t.Fatal(err)
	}
	asked := a.ask(t.Context(), Case{Kind: policy.KindRoute, Ask: settled(t, f)}, nil)
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	x, err := ExplainFrame(t.Context(), dir, asked.Frame)
	if err != nil {
		t.Fatal(err)
	}
	x.Outcome.Took = asked.Took
	if x.Outcome != outcomeOf(asked) {
		t.Errorf("the frame gave %v, the facts gave %v", x.Outcome, outcomeOf(asked))
	}
	for _, f := range x.Facts {
		// The twin hashes every fact into its rule.
		if f.Use != Decides {
			t.Errorf("%s = %s: %s", f.Name, f.Value, f.Use)
		}
	}
	if _, err := ExplainFrame(t.Context(), dir, []byte("FLN1")); err == nil {
		t.Error("half a frame was explained")
	}
}

func TestCallsAreReadable(t *testing.T) {
	for _, c := range []struct {
		name string
		call policy.HostCall
		args string
		data string
	}{
		{"trace, hit", policy.HostCall{Name: "trace", Args: []byte("\x03\x00\x00\x00\x01\x00\x00\x00")}, "rule 3 applies", ""},
		{"trace, miss", policy.HostCall{Name: "trace", Args: []byte("\x03\x00\x00\x00\x00\x00\x00\x00")}, "rule 3 does not apply", ""},
		{"get", policy.HostCall{Name: "get", Args: []byte("\x09\x00\x00\x00\x00\x00\x00\x00"), Data: []byte("a\nb")}, "text 0", `"a\nb"`},
		{"log", policy.HostCall{Name: "log", Args: []byte("\x02\x00\x00\x00careful")}, "careful", ""},
		{"match", policy.HostCall{Name: "match", Args: []byte("\x01\x00\x00\x00\x02\x00\x00\x00b*bob")}, "glob b* bob", ""},
		{"match with a wrong length", policy.HostCall{Name: "match", Args: []byte("\x01\x00\x00\x00\xff\xff\xff\xffb*")}, "0x01000000ffffffff622a", ""},
		{"data", policy.HostCall{Name: "data", Args: []byte("key"), Data: []byte("välue")}, "key", "välue"},
		{"bytes", policy.HostCall{Name: "arg", Args: []byte("/x"), Data: []byte("\xff")}, "/x", "0xff"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if args, data := c.call.Arguments(), policy.OneLine(c.call.Data); args != c.args || data != c.data {
				t.Errorf("got %q and %q, want %q and %q", args, data, c.args, c.data)
			}
		})
	}
}
