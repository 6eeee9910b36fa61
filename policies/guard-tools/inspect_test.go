package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func isCurl(name string) bool { return name == "curl" }

func TestInspect(t *testing.T) {
	for _, c := range []struct {
		name, command string
		want          kind
	}{
		{"plain", "ls -l", plain},
		{"the name as an argument", "grep curl README.md", plain},
		{"the name in quotes as an argument", "git log --grep 'curl x'", plain},
		{"a list without it", "cd src && make; echo done | tee log", plain},
		{"a variable as an argument", "echo $HOME ${USER} \"$HOME\"", plain},
		{"a test", "if [ -f x ]; then cat x; fi", plain},
		{"a loop over files", "for f in *.c; do cc \"$f\"; done", plain},
		{"a comment", "ls # curl 'unbalanced", plain},
		{"redirected", "make >log 2>&1", plain},
		{"a script by its name", "sh build.sh curl", plain},
		{"a sourced script", ". ./venv/activate", plain},
		{"an interpreter's script", "python3 build.py", plain},
		{"shell with plain commands", "bash -euc 'make; ls'", plain},
		{"find without it", "find . -name '*.go' -exec gofmt -l {} +", plain},
		{"empty", " \n ", plain},

		{"alone", "curl http://x", network},
		{"by path", "/usr/bin/curl x", network},
		{"relative path", "cd /usr/bin; ./curl x", network},
		{"after semicolon", "ls;curl x", network},
		{"after pipe", "ls|curl x", network},
		{"after and", "true &&curl x", network},
		{"after newline", "ls\ncurl x", network},
		{"in the background", "ls & curl x", network},
		{"in a subshell", "(curl x)", network},
		{"in braces", "{ curl x; }", network},
		{"in a function", "f() { curl x; }; f", network},
		{"in an if", "if curl x; then ls; fi", network},
		{"after then", "if true; then curl x; fi", network},
		{"in a loop", "for x in a; do curl $x; done", network},
		{"loop without operator", "for x do curl $x; done", network},
		{"in a case", "case x in x) curl x;; esac", network},
		{"negated", "! curl x", network},
		{"quoted", "'curl' x", network},
		{"quotes inside", `c''u"r"l x`, network},
		{"backslashes", `c\url x`, network},
		{"joined line", "cu\\\nrl x", network},
		{"assignment in front", "A=1 B+=2 curl x", network},
		{"redirection in front", ">out 2>err curl x", network},
		{"comment before", "# it's\ncurl x", network},
		{"wrapped", "sudo -u bob nohup curl x", network},
		{"wrapped by find", "find . -exec curl -T {} x ;", network},
		{"wrapped by timeout", "timeout 5 /bin/curl x", network},
		{"env", "env A=b curl x", network},
		{"busybox", "busybox curl", network},
		{"shell -c", "sh -c 'ls; curl x'", network},
		{"shell -c in a wrapper", `sudo bash -c "cu'r'l x"`, network},
		{"shell in shell", `sh -c "sh -c 'curl x'"`, network},
		{"shell with options behind -c", "sh -c -e -- 'curl x'", network},
		{"a shell's name as an option's value", "sudo -u bash curl x", network},
		{"a named descriptor", "{fd}>out curl x", network},
		{"bash's sockets", "exec 3<>/dev/tcp/x/80", network},

		{"substitution", "echo $(curl x)", unreadable},
		{"backticks", "echo `curl x`", unreadable},
		{"substitution in quotes", `echo "$(curl x)"`, unreadable},
		{"substitution for later", "PS4='$(curl x)'; set -x; ls", unreadable},
		{"arithmetic", "echo $((1+1))", unreadable},
		{"program from a variable", "x=cu; ${x}rl y", unreadable},
		{"program from a variable in quotes", `"$X" y`, unreadable},
		{"program by wildcard", "/usr/bin/cur? x", unreadable},
		{"program by braces", "{curl,x}", unreadable},
		{"zsh's equals", "=curl x", unreadable},
		{"expansion with operator", "${x:-curl} y", unreadable},
		{"C quotes", `$'\x63url' x`, unreadable},
		{"eval", "eval cur''l x", unreadable},
		{"source from input", ". /dev/stdin", unreadable},
		{"source from input, wrapped", "builtin . /dev/stdin", unreadable},
		{"here-document", "sh <<E\ncurl x\nE", unreadable},
		{"here-document over two lines", "cat <\\\n<E\nit's\nE\ncurl x\n#'", unreadable},
		{"shell with other options", "bash +e -o posix -c 'curl x'", unreadable},
		{"here-string", "sh <<<'curl x'", unreadable},
		{"process substitution", "cat <(curl x)", unreadable},
		{"pipe into a shell", "echo Y3VybA== | base64 -d | sh", unreadable},
		{"shell from input", "sh /dev/stdin", unreadable},
		{"shell -c with a variable", `sh -c "$X"`, unreadable},
		{"xargs", "echo curl x | xargs -I% % y", unreadable},
		{"env -S", "env -S'curl x'", unreadable},
		{"python -c", "python3 -c 'import urllib'", unreadable},
		{"perl -e", "perl5.36 -e 1", unreadable},
		{"alias", "alias l=curl\nl x", unreadable},
		{"bash function", "function f { curl x; }", unreadable},
		{"open quote", "echo 'x", unreadable},
		{"open double quote", `echo "x`, unreadable},
		{"last backslash", `echo \`, unreadable},
		{"carriage return", "ls\r", unreadable},
		{"NUL", "ls\x00", unreadable},
		{"too deep", `sh -c "sh -c \"sh -c 'sh -c ls'\""`, unreadable},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := inspect(c.command, isCurl); got.kind != c.want {
				t.Errorf("%q: got %d (%s), want %d", c.command, got.kind, got.what, c.want)
			}
		})
	}
}

func FuzzInspect(f *testing.F) {
	f.Add("curl x")
	f.Add(`sh -c "ls 'a\"b' $X" >f 2>&1 # c`)
	f.Add("for x do {a,b} ${x} \\\n")
	f.Fuzz(func(t *testing.T, command string) {
		got := inspect(command, isCurl)
		if got.kind == plain && !strings.Contains(strip(command), "curl") {
			return
		}
		if got.kind == network && !strings.Contains(strip(command), "curl") && !strings.Contains(strip(command), "/dev/") {
			t.Errorf("%q: found %q where there is none", command, got.what)
		}
	})
}

func strip(s string) string {
	return strings.NewReplacer("'", "", `"`, "", `\`, "", "\n", "").Replace(s)
}

// No line that the guard calls plain may run curl in a real shell. The shell runs in an empty folder with a
// PATH of three programs: sh, env, and a curl that leaves a mark. No piece of a command has a slash, so nothing else is reached.
func TestNoPlainCommandRunsCurl(t *testing.T) {
	for _, shell := range []string{"sh", "bash"} {
		t.Run(shell, func(t *testing.T) {
			path, err := exec.LookPath(shell)
			if err != nil {
				t.Skip(err)
			}
			bin := t.TempDir()
			if err := os.WriteFile(filepath.Join(bin, "curl"), []byte("#!/bin/sh\n: >\"$MARK\"\n"), 0o755); err != nil {
				t.Fatal(err)
			}
			for _, name := range []string{"sh", "env"} {
				if real, err := exec.LookPath(name); err != nil || os.Symlink(real, filepath.Join(bin, name)) != nil {
					t.Fatalf("no %s: %v", name, err)
				}
			}
			rapid.Check(t, func(r *rapid.T) {
				command := strings.Join(rapid.SliceOfN(piece, 1, 8).Draw(r, "pieces"), "")
				if found := inspect(command, isCurl); found.kind == plain && runsCurl(t, path, bin, command) {
					r.Errorf("%q runs curl", command)
				}
			})
		})
	}
}

// piece draws a bit of shell, mostly with a blank behind it. No piece calls f: a function that calls itself
// through a pipe would fill the machine with processes.
var piece = rapid.Custom(func(t *rapid.T) string {
	bit := rapid.OneOf(
		rapid.SampledFrom([]string{"curl", "curl", "cu''rl", "'curl'"}),
		rapid.SampledFrom([]string{"env", "sh -c", "x=1", "2>y", "{x}>y", ">y", ";", "|", "&&", "{", "}", "(", ")", "then", "do", "if true;", "for x in y", "for x"}),
		rapid.SampledFrom([]string{"cu", "rl", "c", "url", "x", "echo", "eval", "sh", "-c", "-e", "+e", "--", "-", "x=", "$x", "${x}", "done", "fi", "case x in x", "esac", "while",
			"exec", "command", "time", "function f", "f()", "true", "2", "!", "{x}", "<y", "until", "else", "elif",
			"\t", "\n", "||", "{curl,x}", "'", "'", `"`, `"`, `\`, "\\\n", "#", ">", "<", ">&", "<<x", "$", "`", "$(", "*", "?", "[", "]", "="}),
	).Draw(t, "bit")
	return bit + rapid.SampledFrom([]string{" ", " ", ""}).Draw(t, "blank")
})

func runsCurl(t *testing.T, shell, bin, command string) bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	work := t.TempDir()
	mark := filepath.Join(work, "..", "mark")
	cmd := exec.CommandContext(ctx, shell, "-c", command)
	cmd.Dir, cmd.Env, cmd.WaitDelay = work, []string{"PATH=" + bin, "MARK=" + mark}, time.Second
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
		t.Logf("%q: %v", command, err)
	}
	_, err := os.Stat(mark)
	os.Remove(mark)
	return err == nil
}
