package fuzz

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/flynnhost/flynn/host/policy/author"
	"github.com/flynnhost/flynn/sdk/need"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// scratch is a policy's folder in C, built.
func scratch(t testing.TB, kind, body, cases string) string {
	t.Helper()
	_, err := exec.LookPath("clang")
	need.Part(t, "clang", err)
	dir := t.TempDir()
	hook := map[string]string{"route": "FLYNN_ON_ROUTE", "tool": "FLYNN_ON_TOOL"}[kind]
	for name, text := range map[string]string{
		"policy.toml": fmt.Sprintf("name = \"p\"\nabi = \"flynn 1\"\nkinds = [%q]\nlanguage = \"c\"\n", kind),
		"policy.c":    "#include \"flynn.h\"\nstatic int asked;\n" + hook + "(f) {\n\t(void)asked; (void)f;\n" + body + "\n}\n", "cases/a.toml": cases,
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := author.Build(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	return dir
}

func fuzzed(t testing.TB, c Config) Report {
	t.Helper()
	r, err := Run(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

const (
	toolCase  = "[[case]]\nname = \"first\"\nfacts = { role = \"guest\", tool = \"shell.exec\", effect = \"execute\" }\nargs = { command = \"rm -rf x\", n = 3 }\nwant.deny = true\n"
	routeCase = "[[case]]\nname = \"first\"\nfacts = { role = \"guest\", text = \"hello bob\" }\nwant.drop = true\n"
	deny      = "return flynn_deny(1, FLYNN_S(\"no\"));"
	free      = "return flynn_unrestricted();"
)

// Each of these policies has one thing wrong with it, which is what has to be found, and made small.
func TestFinds(t *testing.T) {
	for _, c := range []struct {
		name, kind, body, cases string
		invariant, what         string
		small                   func(Find) bool
	}{
		{
			"a trap", "route", "flynn_str s = flynn_string(f, FLYNN_TEXT);\n\tif (s.n > 2 && s.p[0] == 'b' && s.p[1] == 'o' && s.p[2] == 'b') __builtin_trap();\n\treturn flynn_drop(1, FLYNN_S(\"no\"));",
			routeCase, fails, "trap", func(f Find) bool { return f.input.Ask.Text == "bob" && len(f.Changes) == 1 },
		},
		{
			"a loop that spends its fuel", "route",
			"flynn_str s = flynn_string(f, FLYNN_SENDER_NAME);\n\tvolatile uint32_t sum = 0;\n\tif (s.n > 0 && s.p[0] == '*') for (;;) sum++;\n\treturn flynn_drop(1, FLYNN_S(\"no\"));",
			routeCase, fails, "fuel", func(f Find) bool { return f.input.Ask.SenderName == "*" },
		},
		{
			"a memory of other questions", "tool", "if (++asked > 50) {" + free + "}\n\t" + deny, toolCase, remembers, "another answer", func(f Find) bool { return f.Than.Deny && !f.Answer.Deny },
		},
		{
			"a type that nobody looks at", "tool",
			"char buf[64];\n\tif (flynn_arg_kind(FLYNN_S(\"/command\")) == FLYNN_KIND_STRING && flynn_arg(FLYNN_S(\"/command\"), buf, sizeof buf) >= 0) {" + deny + "}\n\t" + free,
			toolCase, malformed, "/command is", func(f Find) bool { return len(f.Changes) == 1 && f.Than.Deny },
		},
		{
			"a role that is compared the wrong way round", "tool", "if (flynn_eq(flynn_string(f, FLYNN_ROLE), FLYNN_S(\"guest\"))) {" + deny + "}\n\t" + free,
			toolCase, unknown, "treated better than guest", func(f Find) bool { return len(f.Changes) == 1 && strings.HasPrefix(f.Changes[0], "role:") },
		},
		{
			"a prefix in place of a role", "route", "flynn_str s = flynn_string(f, FLYNN_ROLE);\n\tif (s.n >= 3 && s.p[0] == 'o' && s.p[1] == 'w') return flynn_agent(FLYNN_S(\"helper\"), 1, FLYNN_S(\"x\"));\n\treturn flynn_drop(2, FLYNN_S(\"no\"));",
			routeCase, unknown, "treated better than guest", func(f Find) bool { return f.Answer.Agent == "helper" },
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := scratch(t, c.kind, c.body, c.cases)
			r := fuzzed(t, Config{Dir: dir, Executions: 12_000, Seed: 7, Finds: filepath.Join(dir, "finds")})
			k := slices.IndexFunc(r.Finds, func(f Find) bool { return f.Invariant == c.invariant && strings.Contains(f.What, c.what) })
			if k < 0 {
				t.Fatalf("not found in %d executions: %+v", r.Executions, r.Finds)
			}
			if !c.small(r.Finds[k]) {
				t.Errorf("not small: %+v", r.Finds[k])
			}
			if c.invariant != remembers {
				reproduce(t, dir, r.Finds[k])
			}
		})
	}
}

// reproduce holds that the files of a find can be read by those who are told to: as a case that fails, and as a frame.
func reproduce(t *testing.T, dir string, f Find) {
	t.Helper()
	text, err := os.ReadFile(f.Files[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "cases", "find.toml"), text, 0o600); err != nil {
		t.Fatal(err)
	}
	report, err := author.Test(t.Context(), dir, nil)
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	last := report.Cases[len(report.Cases)-1]
	if report.Failed != 1 || last.Passed || last.Outcome.Fuel != f.Answer.Fuel {
		t.Errorf("the case does not show it: %+v, found %+v\n%s", last, f.Answer, text)
	}
	frame, err := os.ReadFile(f.Files[1])
	if err != nil {
		t.Fatal(err)
	}
	if x, err := author.ExplainFrame(t.Context(), dir, frame); err != nil || len(x.Facts) == 0 {
		t.Errorf("the frame cannot be explained: %v", err)
	}
}

// A policy without fault has no finds, whatever is asked; and what its cases show is no find either.
func TestFindsNothing(t *testing.T) {
	for name, c := range map[string]struct{ kind, body, cases string }{
		"denies all": {"tool", deny, toolCase},
		"fails closed": {"tool", "char buf[64];\n\tif (flynn_eq(flynn_string(f, FLYNN_ROLE), FLYNN_S(\"owner\"))) {" + free + "}\n\t" +
			"if (flynn_arg_kind(FLYNN_S(\"/path\")) == FLYNN_KIND_STRING && flynn_arg(FLYNN_S(\"/path\"), buf, sizeof buf) == 2) {" + free + "}\n\t" + deny,
			strings.Replace(toolCase, "command =", "path =", 1)},
		"a key that may be left out": {"tool", "if (flynn_arg_kind(FLYNN_S(\"/force\")) == FLYNN_KIND_ABSENT) {" + free + "}\n\t" + deny,
			"[[case]]\nname = \"plain\"\nfacts.tool = \"git\"\nwant.unrestricted = true\n[[case]]\nname = \"force\"\nfacts.tool = \"git\"\nargs.force = true\nwant.deny = true\n"},
		"routes by text": {"route", "if (flynn_string(f, FLYNN_TEXT).n > 4) return flynn_agent(FLYNN_S(\"helper\"), 1, FLYNN_S(\"x\"));\n\treturn flynn_abstain();",
			"[[case]]\nname = \"long\"\nfacts.text = \"hello\"\nwant.agent = \"helper\"\n"},
	} {
		t.Run(name, func(t *testing.T) {
			if r := fuzzed(t, Config{Dir: scratch(t, c.kind, c.body, c.cases), Executions: 8_000, Seed: 3}); len(r.Finds) > 0 {
				t.Errorf("%+v", r.Finds)
			}
		})
	}
}

// The same seed and the same number of executions are the same run.
func TestARunCanBeRepeated(t *testing.T) {
	dir := scratch(t, "route", "flynn_str s = flynn_string(f, FLYNN_TEXT);\n\tif (s.n == 7 && s.p[6] == '!') __builtin_trap();\n\treturn flynn_drop(s.n & 7, FLYNN_S(\"no\"));", routeCase)
	one := fuzzed(t, Config{Dir: dir, Executions: 6_000, Seed: 11})
	for range 2 {
		two := fuzzed(t, Config{Dir: dir, Executions: 6_000, Seed: 11})
		one.Took, one.PerSecond, two.Took, two.PerSecond = 0, 0, 0, 0
		if fmt.Sprintf("%d %d %d", one.Executions, one.Corpus, one.Covered) != fmt.Sprintf("%d %d %d", two.Executions, two.Corpus, two.Covered) || len(one.Finds) != len(two.Finds) {
			t.Errorf("%+v\n%+v", one, two)
		}
		for i := range min(len(one.Finds), len(two.Finds)) {
			if a, b := one.Finds[i], two.Finds[i]; a.What != b.What || !reflect.DeepEqual(a.Changes, b.Changes) {
				t.Errorf("find %d: %+v, %+v", i, a, b)
			}
		}
	}
}

// Coverage leads on: four letters in a row are more than chance finds.
func TestCoverageLeadsOn(t *testing.T) {
	dir := scratch(t, "route", `flynn_str s = flynn_string(f, FLYNN_TEXT);
	volatile int steps = 0;
	if (s.n < 4) return flynn_abstain();
	if (s.p[0] == 'W') { steps++; if (s.p[1] == '#') { steps++; if (s.p[2] == 'q') { steps++; if (s.p[3] == '7') __builtin_trap(); } } }
	return flynn_abstain();`, "[[case]]\nname = \"first\"\nfacts.text = \"hello\"\nwant.abstain = true\n")
	if r := fuzzed(t, Config{Dir: dir, Executions: 60_000, Seed: 5}); len(r.Finds) != 1 || r.Finds[0].input.Ask.Text != "W#q7" {
		t.Errorf("%+v", r)
	}
}

// The next run begins with the inputs that one has kept.
func TestCorpusIsKept(t *testing.T) {
	dir := scratch(t, "route", "flynn_str s = flynn_string(f, FLYNN_TEXT);\n\tif (s.n > 9) return flynn_drop(2, FLYNN_S(\"no\"));\n\treturn flynn_abstain();",
		"[[case]]\nname = \"first\"\nfacts.text = \"a\"\nwant.abstain = true\n")
	corpus := filepath.Join(t.TempDir(), "corpus")
	first := fuzzed(t, Config{Dir: dir, Executions: 5_000, Seed: 1, Corpus: corpus})
	files, err := os.ReadDir(corpus)
	if err != nil || len(files) == 0 || first.Covered <= first.ByCases {
		t.Fatalf("%d inputs were kept: %v; %+v", len(files), err, first)
	}
	for name, text := range map[string]string{"broken.json": "{", "foreign.json": `{"case":"of another policy"}`, "big.json": strings.Repeat(" ", maxKeptSize+1)} {
		if err := os.WriteFile(filepath.Join(corpus, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	again := fuzzed(t, Config{Dir: dir, Executions: 1, Seed: 2, Corpus: corpus})
	if again.Covered != first.Covered || again.Corpus <= 1 {
		t.Errorf("the second run begins with %+v, the first ended with %+v", again, first)
	}
}

func TestTheEndHasToBeSaid(t *testing.T) {
	if _, err := Run(t.Context(), Config{Dir: t.TempDir()}); err == nil {
		t.Error("a run without an end begins")
	}
}

func TestShorten(t *testing.T) {
	got := "some long text with a needle in it, Ωμέγα"
	shortenString(got, func(s string) bool {
		if !strings.Contains(s, "needle") {
			return false
		}
		got = s
		return true
	})
	if got != "needle" {
		t.Errorf("%q", got)
	}
}

func TestArguments(t *testing.T) {
	args := []byte(`{"a":{"b":[1,"x"]},"c~/d":null}`)
	for pointer, want := range map[string]string{"": "object", "/a": "object", "/a/b": "array", "/a/b/0": "number", "/a/b/1": "string", "/a/b/01": "absent",
		"/c~0~1d": "null", "/x": "absent", "/a/b/x/y": "absent"} {
		if got := kindAt(args, pointer); got != want {
			t.Errorf("%s is %s, want %s", pointer, got, want)
		}
	}
	if got, ok := replaceAt(args, "/a/b/1", true); !ok || string(got) != `{"a":{"b":[1,true]},"c~/d":null}` {
		t.Errorf("%s, %v", got, ok)
	}
	if got, ok := replaceAt(args, "/a", removed{}); !ok || string(got) != `{"c~/d":null}` {
		t.Errorf("%s, %v", got, ok)
	}
	if got, ok := duplicate(args, "c~/d", "[]"); !ok || string(got) != `{"a":{"b":[1,"x"]},"c~/d":null,"c~/d":[]}` {
		t.Errorf("%s, %v", got, ok)
	}
}

// FuzzMutate holds that what is made of a question is one that could be asked.
func FuzzMutate(f *testing.F) {
	f.Add(uint64(1), "hello", `{"command":"ls"}`)
	f.Add(uint64(2), "Ω\x00", `{"a":[1,{"b":null}],"a":2}`)
	f.Fuzz(func(t *testing.T, seed uint64, text, args string) {
		if len(text) > maxString || len(args) > maxArgs || !utf8.ValidString(text) {
			return
		}
		c := author.Case{Name: "c", Kind: "tool", Args: []byte(args)}
		c.Ask.Agents = []string{"helper"}
		c.Ask.Text, c.Ask.Now, c.Ask.Sender = text, "2026-01-05T12:00:00Z", "irc:bob"
		if err := c.Ask.Settle(); err != nil {
			t.Fatal(err)
		}
		s := &session{random: newRandom(seed), words: []string{"word"}}
		in := newInput(c, nil, nil)
		origin := in
		in.origin = &origin
		s.corpus = []input{in}
		for range 50 {
			in = s.mutate(in)
			if in.Ask.Settle() != nil || !utf8.ValidString(in.Ask.Text) || len(in.Args) > max(maxArgs, len(args)) || !slices.Equal(in.Ask.Agents, c.Ask.Agents) {
				t.Fatalf("%+v", in.Case)
			}
		}
	})
}

// BenchmarkFuzz builds the policies where they stand: one in Go needs the module around it.
func BenchmarkFuzz(b *testing.B) {
	for _, name := range []string{"office-hours", "guard-tools"} {
		b.Run(name, func(b *testing.B) {
			_, err := exec.LookPath("clang")
			need.Part(b, "clang", err)
			dir := filepath.Join("../../../policies", name)
			if _, err := author.Build(b.Context(), dir); err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				b.ReportMetric(fuzzed(b, Config{Dir: dir, Executions: 5_000, Seed: 1}).PerSecond, "executions/s")
			}
		})
	}
}
