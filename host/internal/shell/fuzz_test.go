package shell

import (
	"context"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// FuzzParse compares what Parse understands with what a real shell makes of it: for a single command, the words that the program
// would get.
func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"ls -la", "a 'b c' d", `echo "x" \y`, "a=b", "a '' ''b", "a && b", "x | y; z", `a\ b c`, "a %s @x +y :z =b", "echo 'a'\\''b'", "ls $x", "a#b", "a 'ä'", "a -- b",
	} {
		f.Add(s)
	}
	sh, err := exec.LookPath("sh")
	if err != nil {
		f.Skip("no shell")
	}
	f.Fuzz(func(t *testing.T, text string) {
		l, err := Parse(text)
		if err != nil {
			return
		}
		if len(l.Commands) != len(l.Joins)+1 {
			t.Fatalf("%q has %d commands and %d joins", text, len(l.Commands), len(l.Joins))
		}
		for _, c := range l.Commands {
			if len(c) == 0 || c.Program() == "" {
				t.Fatalf("%q has a command without a program", text)
			}
			for _, w := range c {
				if w.Any || strings.ContainsAny(w.Text, "\n\x00") {
					t.Fatalf("%q has the word %+v", text, w)
				}
			}
		}
		if len(l.Commands) > 1 {
			return
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		// "set --" takes the words as the program would; nothing of the text is run.
		cmd := exec.CommandContext(ctx, sh, "-c", "set -- "+text+"\nfor w do printf '%s\\n' \"$w\"; done")
		cmd.Env = []string{"PATH=/nowhere"} // should the text be more than words, it finds no program
		cmd.Dir = t.TempDir()
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%q: the shell says %v", text, err)
		}
		var want strings.Builder
		for _, w := range l.Commands[0] {
			want.WriteString(w.Text + "\n")
		}
		if string(out) != want.String() {
			t.Errorf("%q is %q to the shell, %q here", text, out, want.String())
		}
	})
}

func FuzzPattern(f *testing.F) {
	f.Add("git log *", "git log x")
	f.Add("a * | b", "a x | b")
	f.Fuzz(func(t *testing.T, pattern, text string) {
		p, err := ParsePattern(pattern)
		if err != nil {
			return
		}
		l, err := Parse(text)
		if err != nil || !p.Match(l) {
			return
		}
		for i, c := range p.Line().Commands {
			for j, w := range c {
				if got := l.Commands[i][j]; !w.Any && w.Text != got.Text || w.Any && strings.HasPrefix(got.Text, "-") {
					t.Errorf("%q fits %q", pattern, text)
				}
			}
		}
	})
}
