package image

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
)

func TestBasesOf(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       []string
		err        string
	}{
		{"one", "FROM debian:12", []string{"debian:12"}, ""},
		{"comments and case", "# a comment\n\n  from  debian:12  \nrun true", []string{"debian:12"}, ""},
		{"stages", "FROM golang:1 AS build\nRUN x\nFROM scratch\nCOPY --from=build /x /\nCOPY --from=0 /y /", []string{"golang:1"}, ""},
		{"stage on a stage", "FROM a AS One\nFROM one AS two\nFROM TWO", []string{"a"}, ""},
		{"other images", "FROM a\nCOPY --chown=1 --from=b:2 /x /y\nCOPY --from=c /x /y", []string{"a", "b:2", "c"}, ""},
		{"a later stage is no stage yet", "FROM late\nFROM x AS late", []string{"late", "x"}, ""},
		{"platform", "FROM --platform=linux/amd64 a AS b", []string{"a"}, ""},
		{"argument", "ARG V=12\nARG I=\"debian:$V\"\nFROM ${I}-slim", []string{"debian:12-slim"}, ""},
		{"several arguments in a line", "ARG A=1 B='2'\nFROM x:$A.$B", []string{"x:1.2"}, ""},
		{"default of a default", "ARG A\nFROM ${A:-x}:${B:-1}${C:+no}", []string{"x:1"}, ""},
		{"argument of a stage does not count", "FROM a\nARG V=1\nFROM b:${V:-2}", []string{"a", "b:2"}, ""},
		{"argument without a value", "ARG V\nFROM $V", nil, "line 2: FROM $V names no image: give its ARG a default"},
		{"continued", "FROM \\\n  # in between\n\n  debian:12 \\\n AS x\nCOPY \\\n --from=y /a /b", []string{"debian:12", "y"}, ""},
		{"other escape", "# escape=`\nFROM `\n a", []string{"a"}, ""},
		{"escape below a comment does not count", "# comment\n# escape=`\nFROM \\\n a", []string{"a"}, ""},
		{"byte order mark and CRLF", "\xef\xbb\xbfFROM a\r\nCOPY --from=b /x /y\r\n", []string{"a", "b"}, ""},
		{"twice", "FROM a\nFROM a", []string{"a"}, ""},
		{"default without a colon", "ARG A=\nARG C\nFROM x:${C-0}${A-1}${B-2}${A+3}${B+4}${A:-5}${A:+6}", []string{"x:0235"}, ""},
		{"here-document", "FROM a\n\nRUN --network=none <<-'EOF' \\\n true\nFROM users\nEOF", nil, "line 3: the engine's builder does not support here-documents"},
		{"copied here-document", "FROM a\nCOPY <<EOF /x\nFROM users\nEOF", nil, "line 2: the"},
		{"no here-document", "FROM a\nRUN cat <<<EOF; echo $((1<<X)) 'a <<'", []string{"a"}, ""},
		{"nothing", "RUN true", nil, "no FROM"},
		{"empty", "", nil, "no FROM"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := basesOf([]byte(c.text), "bridge")
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Errorf("got %v, want %q", err, c.err)
				}
				return
			}
			if err != nil || !reflect.DeepEqual(got, c.want) {
				t.Errorf("got %q, %v, want %q", got, err, c.want)
			}
		})
	}
}

func FuzzBasesOf(f *testing.F) {
	for _, seed := range []string{"FROM a", "ARG A=${A:-$A}\nFROM $A", "# escape=`\nFROM `\nx", "FROM a AS b\nCOPY --from=b x y", "FROM ${A:-${B:+c}}", "\\"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		bases, err := basesOf(text, "bridge")
		if err != nil {
			return
		}
		for _, b := range bases {
			if b == "" {
				t.Errorf("an image without a name in %q", text)
			}
		}
	})
}

func TestClean(t *testing.T) {
	for _, c := range []struct{ name, line, want string }{
		{"plain", "hello\n", "hello"},
		{"colour", "\x1b[31mred\x1b[0m", "red"},
		{"title of a window", "\x1b]0;title\x07text", "text"},
		{"link", "\x1b]8;;http://x\x1b\\text\x1b]8;;\x1b\\", "text"},
		{"bell, backspace, nul", "a\x07\x08\x00b", "ab"},
		{"right to left", "a\u202eb\u2028c", "abc"},
		{"not UTF-8", "a\xff", "a\uFFFD"},
		{"tab", "a\tb", "a b"},
		{"C1", "a\u009b31mb", "a31mb"},
		{"long", strings.Repeat("é", 300), strings.Repeat("é", 200) + "..."},
	} {
		if got := Clean(c.line); got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}

func FuzzClean(f *testing.F) {
	f.Add("\x1b[31mred\x1b[0m")
	f.Add("\x1b]0;a\x1b\\\x1b[")
	f.Fuzz(func(t *testing.T, line string) {
		got := Clean(line)
		if strings.ContainsAny(got, "\x1b\n\r\x00\x07") || len([]rune(got)) > maxLine+3 {
			t.Errorf("%q becomes %q", line, got)
		}
	})
}

func TestOutputKeepsTheEnd(t *testing.T) {
	var told int
	o := Output{Tell: func(string) { told++ }}
	for i := range 30 {
		_, _ = o.Write([]byte(strings.Repeat("x", i) + "\r"))
	}
	_, _ = o.Write([]byte(strings.Repeat("y", 1<<20)))
	last := o.Last()
	if len(last) != tailLines || last[0] != strings.Repeat("x", 21) || len(last[9]) != maxLine+3 || told != 30 || len(o.part) > maxRaw {
		t.Errorf("kept %q, told %d", last, told)
	}
}

// Package managers go on after a failure; what it was is not lost behind what came after it.
func TestOutputKeepsTheFirstFailures(t *testing.T) {
	var o Output
	for _, line := range []string{"(1/60) Installing one (1-r0)", "ERROR: one-1-r0: BAD archive", "E: Sub-process failed", "dpkg: error processing x", "ERROR: a fourth"} {
		fmt.Fprintln(&o, line)
	}
	for i := range 50 {
		fmt.Fprintf(&o, "(%d/60) Installing more (1-r0)\n", i+2)
	}
	fmt.Fprintln(&o, "ERROR: the last")
	last := o.Last()
	if want := []string{"ERROR: one-1-r0: BAD archive", "E: Sub-process failed", "dpkg: error processing x"}; len(last) != maxEarly+tailLines || !reflect.DeepEqual(last[:3], want) || last[12] != "ERROR: the last" {
		t.Errorf("kept %q", last)
	}
}

func TestCheckPackage(t *testing.T) {
	for _, good := range []string{"git", "g++", "libc++-dev", "git=1:2.39.5-0+deb12u2", "python3.11", "libc6:arm64", "py3-pip~23", "7zip", "openssh-client=9.6_p1-r0", "linux-firmware-ath9k_htc", "R", "tool=2.0~RC1-1"} {
		if err := CheckPackage(good); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
	for _, bad := range []string{
		"", "-y", "--allow-unauthenticated", "git;true", "git curl", "$(x)", "a/b", "./a.deb", "git-", "git-=1", "git=1-", "git:all-", "git=", "a=1=2", "g*", "a\nb", "a>1", "@x",
		strings.Repeat("a", 201),
	} {
		if err := CheckPackage(bad); err == nil {
			t.Errorf("%q is let through", bad)
		}
	}
}

func TestRecipeValidate(t *testing.T) {
	sum := strings.Repeat("0", 64)
	for _, c := range []struct {
		name   string
		recipe Recipe
		want   string // in the error; empty for none
	}{
		{"image", Recipe{Image: "a"}, ""},
		{"additions", Recipe{Image: "a", Packages: []string{"git"}, Binaries: []Binary{{Name: "x", File: "/x", SHA256: sum}}, Network: "none"}, ""},
		{"dockerfile", Recipe{Dockerfile: "/d", Context: "/c"}, ""},
		{"nothing", Recipe{}, "neither image nor dockerfile"},
		{"two", Recipe{Image: "a", Dockerfile: "/d"}, "image and dockerfile clash"},
		{"packages in a dockerfile", Recipe{Dockerfile: "/d", Packages: []string{"git"}}, "packages and dockerfile clash"},
		{"binaries in a dockerfile", Recipe{Dockerfile: "/d", Binaries: []Binary{{}}}, "binaries and dockerfile clash"},
		{"context alone", Recipe{Image: "a", Context: "/c"}, "build_context requires"},
		{"relative", Recipe{Dockerfile: "d"}, "absolute"},
		{"network", Recipe{Image: "a", Network: "container:x"}, "build_network"},
		{"twice", Recipe{Image: "a", Binaries: []Binary{{Name: "x", File: "/x", SHA256: sum}, {Name: "x", File: "/y", SHA256: sum}}}, "twice"},
		{"name with a path", Recipe{Image: "a", Binaries: []Binary{{Name: "../x", File: "/x", SHA256: sum}}}, "not a program name"},
		{"sum in capitals", Recipe{Image: "a", Binaries: []Binary{{Name: "x", File: "/x", SHA256: strings.Repeat("A", 64)}}}, "64 lower-case"},
		{"password in the url", Recipe{Image: "a", Binaries: []Binary{{Name: "x", URL: "https://a:b@x/", SHA256: sum}}}, "must be an https address such as"},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := c.recipe.Validate()
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

// Without a network nothing is fetched: neither by a step, nor by the engine for one.
func TestNothingIsAddedFromTheNetwork(t *testing.T) {
	for _, c := range []struct {
		text    string
		refused bool
	}{
		{"ADD http://127.0.0.1:1/x /x", true},
		{"add HTTPS://a.example/x /x", true},
		{`ADD ["https://a.example/x", "/x"]`, true},
		{`ADD "https://a.example/x" /x`, true},
		{`ADD h\ttps://a.example/x /x`, true},
		{"ADD --chown=1:1 --checksum=sha256:0 https://a.example/x /x", true},
		{"ADD a b https://a.example/x /x/", true},
		{"ADD ht\\\ntps://a.example/x /x", true},
		{"ADD \\\n  # between\n  https://a.example/x /x", true},
		{"ARG U=https://a.example\nADD $U/x /x", true},
		{"ARG U=ttp://a.example\nADD h${U} /x", true},
		{"ONBUILD ADD https://a.example/x /x", true},
		{"ADD git@a.example:x/y.git /x", true},
		{"ADD x /http://", false},
		{"ADD httpd.conf /x", false},
		{"ADD dir/$V/x.tgz /x", false},
		{"COPY a$V /x", false},
		{"RUN echo ADD https://a.example/x /x", false},
		{"# ADD https://a.example/x /x", false},
	} {
		text := []byte("FROM a\n" + c.text)
		if _, err := basesOf(text, "none"); (err != nil) != c.refused {
			t.Errorf("%q: %v", c.text, err)
		} else if err != nil && !strings.Contains(err.Error(), "build_network") {
			t.Errorf("%q: %v", c.text, err)
		}
		if _, err := basesOf(text, "bridge"); err != nil {
			t.Errorf("with a network, %q: %v", c.text, err)
		}
	}
}
