package host_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The tests of this file keep one vocabulary in code, comments, help, scripts and pages.

// term is a word or a turn of phrase that Flynn does not use, and the one that it uses instead.
type term struct {
	name, instead string
	stem          string // in lower case, of every match: most lines do not have it
	found         *regexp.Regexp
}

// word finds a word of a text, and the same word inside an identifier: desk, Desk, newDesk, deskOf.
func word(name, instead string) term {
	title := strings.ToUpper(name[:1]) + name[1:]
	return term{name, instead, name, regexp.MustCompile(fmt.Sprintf(`(?:\b|_)(?i:%s)s?(?:\b|_)|[a-z0-9]%[2]ss?(?:[^a-z]|$)|\b(?:%[1]s|%[2]s)s?[A-Z]`, name, title))}
}

func phrase(pattern, stem, instead string) term {
	return term{pattern, instead, stem, regexp.MustCompile(`(?i)\b(?:` + pattern + `)\b`)}
}

var glossary = []term{
	word("lane", "keyed queue; control socket"),
	word("door", "frontend"),
	word("desk", "service, or what it serves: approvals, pairings"),
	word("ledger", "log, journal, store, accounts"),
	word("furniture", "mounts"),
	word("tenure", "ownership"),
	word("drowse", "pause"),
	word("forebear", "parent"),
	word("lineage", "delegation chain"),
	word("offspring", "children"),
	word("backgrounder", "background child"),
	word("errand", "callback on the turn's goroutine"),
	word("census", "block counters"),
	word("roster", "agent list"),
	word("lineup", "reconcile"),
	word("enclosure", "sandboxed server"),
	word("verdict", "decision of a policy, result of a command"),
	word("ruling", "decision"),
	word("footprint", "GC tuning"),
	word("spool", "batch writer"),
	phrase(`tells? whether`, " whether", "reports whether"),
	phrase(`says whether`, "says whether", "reports whether"),
	phrase(`(?:is|are|was|were|be|being) told of`, "told of", "gets, is called with"),
	phrase(`whoever`, "whoever", "name the actor"),
}

// clauses are sentences that begin with Who, What or Whatever; they are wrong unless they ask something.
var clauses = regexp.MustCompile(`(?m)(?:^\s*(?://)?\s*|\. |\| )((?:Who|What|Whatever) [a-z][^.?!|]*[.?!|]?)`)

// exceptions are the uses that stay.
var exceptions = []struct {
	files, line *regexp.Regexp
	why         string
}{
	{regexp.MustCompile(`^CHANGELOG\.md$`), regexp.MustCompile(``), "it quotes the names of its time"},
	{regexp.MustCompile(`^host/glossary_test\.go$`), regexp.MustCompile(``), "it lists the words"},
	{regexp.MustCompile(``), regexp.MustCompile(`local_doors?`), "the old name of local_frontends, understood for one release"},
	{regexp.MustCompile(``), regexp.MustCompile("\\bDoor\\b|\"door\"|`door`|\\bdoor *=|show door|.door. is .web|input\\.door"), "the fact door of the policy ABI"},
	{regexp.MustCompile(``), regexp.MustCompile(`"(?:tool_)?verdict|flynn\.verdict|\.verdict"`), "stored, sent and exported under this name"},
	{regexp.MustCompile(``), regexp.MustCompile("[\"`]ruling[\"`]"), "a label of a metric"},
	{regexp.MustCompile(`^host/sandbox/frame/`), regexp.MustCompile(`json:"lane`), "sent under this name"},
	{regexp.MustCompile(``), regexp.MustCompile(`/var/spool/`), "a folder of the system"},
}

// glossaryHits returns the terms of a text that a file may not use, as "line: term".
func glossaryHits(file, text string) []string {
	var hits []string
	lines := strings.Split(text, "\n")
	excepted := func(n int) bool {
		for _, e := range exceptions {
			if e.files.MatchString(file) && e.line.MatchString(lines[n]) {
				return true
			}
		}
		return false
	}
	lower := strings.ToLower(text)
	terms := slices.DeleteFunc(slices.Clone(glossary), func(t term) bool { return !strings.Contains(lower, t.stem) })
	for n, line := range lines {
		for _, t := range terms {
			if t.found.MatchString(line) && !excepted(n) {
				hits = append(hits, fmt.Sprintf("%d: %q; write %s", n+1, t.name, t.instead))
			}
		}
	}
	for _, at := range clauses.FindAllStringSubmatchIndex(text, -1) {
		sentence, n := text[at[2]:at[3]], strings.Count(text[:at[2]], "\n")
		comment := strings.HasSuffix(file, ".md") || strings.Contains(lines[n], "//")
		if comment && !strings.HasSuffix(sentence, "?") && !strings.HasSuffix(sentence, "|") && !excepted(n) {
			hits = append(hits, fmt.Sprintf("%d: a sentence begins with %.20q; name its subject", n+1, sentence))
		}
	}
	return hits
}

func TestGlossary(t *testing.T) {
	out, err := exec.Command("git", "-C", "..", "ls-files").Output()
	if err != nil {
		t.Skipf("not a git checkout: %v", err)
	}
	for _, file := range strings.Fields(string(out)) {
		if !slices.Contains([]string{".go", ".md", ".txtar", ".toml"}, filepath.Ext(file)) || strings.HasSuffix(file, ".pb.go") {
			continue
		}
		text, err := os.ReadFile(filepath.Join("..", file))
		if err != nil {
			continue // removed and not committed yet
		}
		for _, hit := range glossaryHits(file, string(text)) {
			t.Errorf("%s:%s", file, hit)
		}
	}
}

func TestGlossaryFindsWords(t *testing.T) {
	for text, want := range map[string]int{
		"// Use tells whether a thing holds.":                     1,
		"// Use reports whether a thing holds.":                   0,
		"func newDesk() *Desk { return nil }":                     1,
		"the desktop":                                             0,
		"// Full is told of each call.":                           1,
		"// Who adds a tool has it approved.":                     1,
		"// A word. What follows is dropped.":                     1,
		"// Who adds a tool?":                                     0,
		"// Who adds\n// a tool?":                                 0,
		"fmt.Println(\"What is this\")":                           0,
		"var rosterOf = 1":                                        1,
		"// doors lead to lanes":                                  2,
		"LocalFrontends bool `toml:\"x\" was:\"local_doors\"`":    0,
		"Outcome string `json:\"verdict,omitempty\"`":             0,
		"// the verdict of a policy, by which a child is decided": 1,
	} {
		if hits := glossaryHits("host/x.go", text); len(hits) != want {
			t.Errorf("%q has %d findings, want %d: %q", text, len(hits), want, hits)
		}
	}
}
