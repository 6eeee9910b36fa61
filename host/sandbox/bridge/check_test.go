package bridge

import (
	"errors"
	"path"
	"strings"
	"testing"
)

var workspace = Workspace{Inside: "/workspace", There: "/w"}

func compiled(t testing.TB, forms ...Form) *Rules {
	t.Helper()
	r, err := Compile(forms)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func forms() []Form {
	return []Form{
		{Args: []Arg{{Pattern: "pr"}, {Pattern: "list|view"}, {Pattern: "[0-9]+", Rest: true}}, Flags: map[string]string{"--limit": "[0-9]+", "-q": ""}},
		{Args: []Arg{{Pattern: "clone"}, {Pattern: `https://example\.com/[a-z]+`}, {Path: true}}, Flags: map[string]string{"--": ""}},
		{Args: []Arg{{Pattern: "upload"}, {Path: true, Pattern: `.*\.txt`}}, Flags: map[string]string{"--title": ".+", "--data": "@.+"}},
		{Args: []Arg{{Pattern: "say"}, {Pattern: "", Rest: true}}},
	}
}

func TestCheck(t *testing.T) {
	for _, c := range []struct {
		name, argv, cwd, want string // arguments and the call, or the refusal, separated by |
	}{
		{"plain", "pr|list", "/workspace", "pr|list"},
		{"rest", "pr|view|1|22", "/workspace", "pr|view|1|22"},
		{"flags anywhere", "-q|pr|--limit|5|list|--limit=6", "/workspace", "-q|pr|--limit|5|list|--limit=6"},
		{"path", "upload|a.txt", "/workspace/sub", "upload|/w/sub/a.txt"},
		{"absolute path", "upload|/workspace/x/../a.txt", "/workspace", "upload|/w/a.txt"},
		{"path upwards, but inside", "upload|../a.txt", "/workspace/sub", "upload|/w/a.txt"},
		{"path like a flag", "upload|./-x.txt", "/workspace", "upload|/w/-x.txt"},
		{"flags end", "clone|--|https://example.com/a|b", "/workspace", "clone|--|https://example.com/a|/w/b"},
		{"file where it is listed", "upload|a.txt|--data|@b", "/workspace", "upload|/w/a.txt|--data|@b"},
		{"signs that name no file", "say|a@b|<3|profile://x|a file: b", "/workspace", "say|a@b|<3|profile://x|a file: b"},
		{"empty argument", "say||x", "/workspace", "say||x"},

		{"flag", "pr|list|-c", "/workspace", `! argument 3 ("-c"): is a flag that is not listed`},
		{"flag with value", "clone|--upload-pack=touch x|https://example.com/a|b", "/workspace", `! argument 2 ("--upload-pack=touch x"): is a flag that is not listed`},
		{"flags together", "pr|list|-qc", "/workspace", `! argument 3 ("-qc"): is a flag that is not listed`},
		{"shortened flag", "pr|list|--lim=5", "/workspace", `! argument 3 ("--lim=5"): is a flag that is not listed`},
		{"value where none is due", "pr|list|-q=x", "/workspace", `! argument 3 ("-q=x"): is a flag that takes no value`},
		{"value missing", "pr|list|--limit", "/workspace", `! argument 3 ("--limit"): is a flag that lacks its value`},
		{"value is a flag", "pr|list|--limit|--exec", "/workspace", `! argument 4 ("--exec"): begins with a hyphen where a value is due`},
		{"value does not match", "pr|list|--limit=5;id", "/workspace", `! argument 3 ("--limit=5;id"): the value does not match [0-9]+`},
		{"hyphen alone", "pr|list|-", "/workspace", `! argument 3 ("-"): is a flag that is not listed`},
		{"end of flags", "pr|list|--", "/workspace", `! argument 3 ("--"): is a flag that is not listed`},
		{"hyphen after the end", "clone|--|-x|b", "/workspace", `! argument 3 ("-x"): begins with a hyphen after "--"`},
		{"not anchored", "pr|listing", "/workspace", `! argument 2 ("listing"): does not match list|view`},
		{"another line", "say|a\nb", "/workspace", `! argument 2 ("a\nb"): has a line break or another control character`},
		{"carriage return", "say|a\rb", "/workspace", `! argument 2 ("a\rb"): has a line break or another control character`},
		{"NUL", "say|a\x00b", "/workspace", `! argument 2 ("a\x00b"): has a line break or another control character`},
		{"turned text", "say|a\u202eb", "/workspace", `! argument 2 ("a\u202eb"): has a line break or another control character`},
		{"not UTF-8", "say|a\xff", "/workspace", `! argument 2 ("a\xff"): not valid UTF-8`},
		{"file", "say|@/etc/passwd", "/workspace", `! argument 2 ("@/etc/passwd"): may name a file by "@", which is not listed`},
		{"file behind a key", "say|body=@/etc/passwd", "/workspace", `! argument 2 ("body=@/etc/passwd"): may name a file by "@", which is not listed`},
		{"file as a value", "upload|a.txt|--title=@x", "/workspace", `! argument 3 ("--title=@x"): may name a file by "@", which is not listed`},
		{"file of a form", "say|body=</etc/passwd", "/workspace", `! argument 2 ("body=</etc/passwd"): may name a file by "<", which is not listed`},
		{"file as a URL", "say|FILE:///etc/passwd", "/workspace", `! argument 2 ("FILE:///etc/passwd"): may name a file by "file:", which is not listed`},
		{"file as bytes, behind a key", "say|Body=fileb:///proc/self/environ", "/workspace", `! argument 2 ("Body=fileb:///proc/self/environ"): may name a file by "fileb:", which is not listed`},
		{"another way than the one listed", "upload|a.txt|--data|@x=file:/y", "/workspace", `! argument 4 ("@x=file:/y"): may name a file by "file:", which is not listed`},
		{"one too many", "clone|https://example.com/a|b|c", "/workspace", `! argument 4 ("c"): is one more than are listed`},
		{"one too few", "clone|https://example.com/a", "/workspace", `! argument 3: missing: want a path in the workspace`},
		{"path outside", "upload|../a.txt", "/workspace", `! argument 2 ("../a.txt"): is not a path in the workspace /workspace`},
		{"path far outside", "upload|../../../../etc/a.txt", "/workspace", `! argument 2 ("../../../../etc/a.txt"): is not a path in the workspace /workspace`},
		{"absolute path outside", "upload|/etc/a.txt", "/workspace", `! argument 2 ("/etc/a.txt"): is not a path in the workspace /workspace`},
		{"neighbour of the workspace", "upload|/workspace2/a.txt", "/workspace", `! argument 2 ("/workspace2/a.txt"): is not a path in the workspace /workspace`},
		{"the workspace's place there", "upload|/w/a.txt", "/workspace", `! argument 2 ("/w/a.txt"): is not a path in the workspace /workspace`},
		{"path that does not match", "upload|a.sh", "/workspace", `! argument 2 ("a.sh"): is a path that does not match .*\.txt`},
		{"working directory outside", "pr|list", "/etc", `! the working directory "/etc" is not in the workspace /workspace`},
		{"relative working directory", "pr|list", "x", `! the working directory "x" is not in the workspace /workspace`},
		{"nothing", "", "/workspace", `! argument 1: does not match pr`},
	} {
		t.Run(c.name, func(t *testing.T) {
			argv := strings.Split(c.argv, "|")
			got, err := compiled(t, forms()...).Check(argv, c.cwd, workspace)
			if refusal, refused := strings.CutPrefix(c.want, "! "); refused {
				if err == nil || err.Error() != refusal {
					t.Errorf("got %q (%v), want %s", got.Argv, err, refusal)
				}
				return
			}
			if err != nil || strings.Join(got.Argv, "|") != c.want {
				t.Errorf("got %q (%v), want %q", got.Argv, err, c.want)
			}
		})
	}
}

func TestCompileRefuses(t *testing.T) {
	for name, f := range map[string]Form{
		"bad pattern":           {Args: []Arg{{Pattern: "("}}},
		"pattern out of anchor": {Args: []Arg{{Pattern: "a)|(b"}}},
		"rest in the middle":    {Args: []Arg{{Rest: true}, {}}},
		"flag without a hyphen": {Flags: map[string]string{"limit": ""}},
		"flag with a value":     {Flags: map[string]string{"--a=b": ""}},
		"empty flag":            {Flags: map[string]string{"": ""}},
		"end of flags as flag":  {Flags: map[string]string{"--": "x"}},
		"bad pattern of a flag": {Flags: map[string]string{"-x": "["}},
	} {
		if _, err := Compile([]Form{f}); err == nil {
			t.Errorf("accepted: %s", name)
		}
	}
	if _, err := compiled(t).Check(nil, "/workspace", workspace); err == nil {
		t.Error("without rules something is accepted")
	}
}

// FuzzCheck: no flag that is not listed, no path outside, no control character is ever accepted.
func FuzzCheck(f *testing.F) {
	for _, seed := range []string{
		"pr|list", "clone|--|https://example.com/a|b", "upload|../x.txt|--title|y", "upload|//workspace/..//workspace/a.txt", "say|@x|=@y|-", "pr|view|--limit=5",
		"upload|a.txt|--title=-rf", "upload|a/../../b.txt", "clone|https://example.com/a\n|.",
	} {
		f.Add(seed, "/workspace/sub")
	}
	f.Add("upload|x.txt", "/workspace/../etc")
	rules := compiled(f, forms()...)
	listed := map[string]bool{"--limit": true, "-q": true, "--": true, "--title": true, "--data": true}
	f.Fuzz(func(t *testing.T, line, cwd string) {
		argv := strings.Split(line, "|")
		got, err := rules.Check(argv, cwd, workspace)
		if err != nil {
			if !errors.As(err, new(Refusal)) {
				t.Errorf("%q: %v is no refusal", argv, err)
			}
			return
		}
		if len(got.Argv) != len(argv) {
			t.Errorf("%q became %q", argv, got.Argv)
		}
		for _, a := range got.Argv {
			name, _, _ := strings.Cut(a, "=")
			if strings.HasPrefix(a, "-") && !listed[name] || strings.ContainsAny(a, "\n\r\x00\x1b") {
				t.Errorf("%q: accepted %q", argv, a)
			}
		}
		for _, p := range append(got.Paths, got.Dir) {
			if path.IsAbs(p) || path.Clean(p) != p || p == ".." || strings.HasPrefix(p, "../") {
				t.Errorf("%q in %q: path %q", argv, cwd, p)
			}
		}
		if got.Argv[0] == "upload" && !strings.HasPrefix(got.Argv[1], "/w/") && !strings.HasPrefix(got.Argv[1], "-") {
			t.Errorf("%q: %q is not in the workspace", argv, got.Argv)
		}
	})
}
