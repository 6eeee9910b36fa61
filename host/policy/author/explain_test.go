package author

import (
	"path/filepath"
	"strings"
	"testing"
)

// Explain tells apart what a decision hangs on, what was only looked at, and what the policy never saw; in both languages.
func TestExplainNamesTheFactsThatMatter(t *testing.T) {
	for _, language := range []string{"c", "go"} {
		t.Run(language, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "mine")
			if err := New(dir, language, kindTool); err != nil {
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
			var calls []string
			for _, c := range x.Calls {
				calls = append(calls, c.Name)
			}
			if got := strings.Join(calls, " "); got != "data trace" {
				t.Errorf("calls %q, want %q", got, "data trace")
			}
		})
	}
}

func TestExplainAFrame(t *testing.T) {
	dir := filepath.Join("testdata", "conformance-c")
	mustBuild(t, dir)
	f := conformanceFacts()
	f.Text, f.Attachments, f.Labels = "agent", 1, []string{"web:example.com"}
	p, err := load(dir)
	if err != nil {
		t.Fatal(err)
	}
	a, err := p.open(t.Context(), Case{})
	if err != nil {
		t.Fatal(err)
	}
	asked := a.ask(t.Context(), Case{Kind: kindRoute, Ask: settled(t, f)})
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	x, err := ExplainFrame(t.Context(), dir, asked.record.Frame)
	if err != nil {
		t.Fatal(err)
	}
	x.Outcome.Took = asked.outcome.Took
	if x.Outcome != asked.outcome {
		t.Errorf("the frame gave %v, the facts gave %v", x.Outcome, asked.outcome)
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
