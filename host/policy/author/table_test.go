package author

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/flynnhost/flynn/sdk/policy/abi"

	"github.com/flynnhost/flynn/host/policy"
)

// tableDir holds one policy, written once per language, and the cases that all of them pass; its README says what the
// policy does.
var tableDir = filepath.Join("testdata", "table")

// leastTable is how many cases every language has to pass.
const leastTable = 200

// Every language that can be built answers the same table, and as it is written there.
func TestEveryLanguagePassesTheTable(t *testing.T) {
	t.Parallel()
	for _, language := range Languages() {
		t.Run(language, func(t *testing.T) {
			dir := filepath.Join(tableDir, language)
			if _, err := os.Stat(dir); err != nil {
				t.Fatalf("there is no table policy in %s: %v", language, err)
			}
			mustBuild(t, dir)
			cases := append(tableCases(t, dir), longCases(t)...)
			if language == "rego" {
				cases = asRegoSeesThem(cases)
			}
			if len(cases) < leastTable {
				t.Fatalf("the table has %d cases, want at least %d", len(cases), leastTable)
			}
			askTable(t, dir, cases)
		})
	}
}

func tableCases(t *testing.T, dir string) []Case {
	t.Helper()
	m, err := LoadManifest(dir)
	if err != nil {
		t.Fatal(err)
	}
	cases, err := LoadCases(tableDir, m)
	if err != nil {
		t.Fatal(err)
	}
	return cases
}

func askTable(t *testing.T, dir string, cases []Case) {
	t.Helper()
	p, err := OpenSubject(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}()
	results, err := p.runCases(context.Background(), cases, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range results {
		if !r.Passed && !gaveUp(cases[i].Want, r.Outcome) {
			t.Errorf("%s: %q: %v\n%v", r.File, r.Name, r.Diffs, r.Outcome)
		}
	}
	t.Logf("%d cases in %s", len(results), filepath.Base(dir))
}

// gaveUp reports that a case wants the policy to fail by itself and it did, in the way of its SDK: one traps, another answers
// with what is no decision.
func gaveUp(w Want, o Outcome) bool {
	class := o.Class()
	return w.Error == "answer" && (class == "answer" || class == "trap")
}

// longCases are about texts that no frame holds, and reasons that no answer does.
func longCases(t *testing.T) (cases []Case) {
	t.Helper()
	for _, fill := range []string{"x", "é", "€", "🜁", "é€x🜁"} {
		for _, n := range []int{1000, 1022, 1023, 1024, 1025, 1026, 4000, 8163, 8164, 8165, 20_000, 60_000} {
			for fact, want := range map[string]func(string) string{"text": inFrame, "full_text": inAnswer, "text_len": inDecimal} {
				f := defaultFacts()
				f.Text = "show " + fact + "\n"
				f.Text += strings.Repeat(fill, (n-len(f.Text))/len(fill))
				f.Text += strings.Repeat(".", n-len(f.Text))
				reason, rule := want(f.Text), uint32(1)
				name := fmt.Sprintf("%s of %d bytes of %s", fact, n, fill)
				cases = append(cases, Case{"long", name, policy.KindRoute, nil, settled(t, f), nil, Want{Abstain: true, Rule: &rule, Reason: &reason}})
			}
		}
	}
	return cases
}

// inFrame is what a frame holds of a text.
func inFrame(text string) string { return beginning(text, abi.TextInFrame) }

// inAnswer is what an answer of one entry holds of a reason.
func inAnswer(text string) string { return beginning(text, 8<<10-abi.HeaderSize-abi.EntrySize) }

func inDecimal(text string) string { return fmt.Sprint(len(text)) }

// beginning is the longest run of whole characters that takes at most n bytes.
func beginning(text string, n int) string {
	end := 0
	for i, r := range text {
		if i+utf8.RuneLen(r) > n {
			break
		}
		end = i + utf8.RuneLen(r)
	}
	return text[:end]
}
