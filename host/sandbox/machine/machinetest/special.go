package machinetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/sandbox/machine"
)

// testFileModes checks that a file keeps its mode, unless a write sets another one.
func testFileModes(t *testing.T, m machine.Machine) {
	execute(t, m, machine.Command{Script: "umask 077; : >private; : >open; chmod 666 open; : >run; chmod 755 run"})
	for _, c := range []struct {
		name, path string
		perm       fs.FileMode
		want       string
	}{
		{"new", "new", 0, "644"},
		{"new with a mode", "new-private", 0o600, "600"},
		{"private stays", "private", 0, "600"},
		{"open stays", "open", 0, "666"},
		{"executable stays", "run", 0, "755"},
		{"told otherwise", "run", 0o640, "640"},
		{"no more than permissions", "set-id", fs.ModeSetuid | 0o755, "755"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := m.WriteFile(t.Context(), c.path, []byte("x"), c.perm); err != nil {
				t.Fatal(err)
			}
			r := execute(t, m, machine.Command{Script: "stat -c '%a %u' " + c.path + "; id -u"})
			mode, user, _ := strings.Cut(string(r.Stdout), " ")
			if owner, me, _ := strings.Cut(user, "\n"); mode != c.want || owner+"\n" != me {
				t.Errorf("mode and owner %q, want %s and the user of commands", r.Stdout, c.want)
			}
		})
	}
}

// testFileLinks checks that a write through a link reaches the file that the kernel would reach.
func testFileLinks(t *testing.T, m machine.Machine) {
	execute(t, m, machine.Command{Script: `
		mkdir -p deep/er other; echo old >deep/f; echo old >f
		ln -s deep/er short; ln -s ../f deep/er/up; ln -s deep/f direct; ln -s direct twice; ln -s ../f deep/out`})
	for _, c := range []struct{ name, path, file string }{
		{"link", "direct", "deep/f"},
		{"link to a link", "twice", "deep/f"},
		{"upwards", "deep/out", "f"},
		{"upwards from behind a link to a folder", "short/up", "deep/f"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := m.WriteFile(t.Context(), c.path, []byte(c.name), 0); err != nil {
				t.Fatal(err)
			}
			r := execute(t, m, machine.Command{Script: fmt.Sprintf("cat %s; test -L %s; echo $?", c.file, c.path)})
			if string(r.Stdout) != c.name+"0\n" {
				t.Errorf("the file and whether the link is one: %q", r.Stdout)
			}
		})
	}
}

// testSpecialFiles checks that special files are neither waited for nor read.
func testSpecialFiles(t *testing.T, m machine.Machine) {
	execute(t, m, machine.Command{Script: `
		mkfifo pipe; ln -s /dev/zero zero; ln -s /proc/self/mem mem; ln -s /proc/self/fd/0 stdin; ln -s /dev/stdin dev-stdin
		dd if=/dev/zero of=sparse bs=1 count=0 seek=1099511627776 2>/dev/null || :`})
	for _, c := range []struct {
		path string
		want error
	}{
		{"pipe", machine.ErrNotRegular}, {"zero", machine.ErrOutside}, {"mem", machine.ErrOutside},
		{"stdin", machine.ErrOutside}, {"dev-stdin", machine.ErrOutside},
	} {
		t.Run(c.path, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			if got, _, err := m.ReadFile(ctx, c.path, 0, 100); !errors.Is(err, c.want) {
				t.Errorf("read %q, error %v; want %v", got, err, c.want)
			}
			if err := m.WriteFile(ctx, c.path, []byte("x"), 0); !errors.Is(err, c.want) {
				t.Errorf("write: %v, want %v", err, c.want)
			}
		})
	}
	t.Run("sparse", func(t *testing.T) {
		const size = 1 << 40
		got, whole, err := m.ReadFile(t.Context(), "sparse", size-10, 1<<20)
		if err == nil && whole == 0 || errors.Is(err, machine.ErrNotFound) {
			t.Skip("this file system has no file of 1 TiB")
		}
		if err != nil || whole != size || len(got) != 10 {
			t.Errorf("read %d bytes at the end of %d, error %v", len(got), whole, err)
		}
		if got, _, err = m.ReadFile(t.Context(), "sparse", 0, 1000); err != nil || !bytes.Equal(got, make([]byte, 1000)) {
			t.Errorf("read %d bytes at the start, error %v; want 1000 zeros", len(got), err)
		}
	})
}

// raceRounds is the number of reads and writes in testFileRaces.
const raceRounds = 10_000

// raceFor ends them early on a slow machine.
const raceFor = 15 * time.Second

// testFileRaces reads and writes while a command replaces a folder and a file by links that lead outside.
func testFileRaces(t *testing.T, m machine.Machine) {
	execute(t, m, machine.Command{Script: `mkdir -p good work; echo inside >good/hostname; echo inside >good/passwd
		ln -s "$(mktemp -d /tmp/flynn-race-XXXXXX)" evil; echo secret >evil/hostname; ln -s /etc etc; ln -s .. up; cp -a good cur`})
	p, err := m.Start(t.Context(), machine.Command{Script: `
		while :; do
			for to in "$(readlink evil)" /etc ..; do mv cur old; ln -s "$to" cur; rm cur; mv old cur
				ln -sf "$to/hostname" cur/hostname; echo inside >work/h; mv -f work/h cur/hostname; done
		done`})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if _, err := m.Kill(context.WithoutCancel(t.Context()), p.ID); err != nil {
			t.Error(err)
		}
	}()
	read, written := 0, 0
	refused := map[string]int{}
	began := time.Now()
	for i := range raceRounds / 2 {
		if time.Since(began) > raceFor && read > 0 && written > 0 {
			break
		}
		got, _, err := m.ReadFile(t.Context(), "cur/hostname", 0, 100)
		if text := string(got); err == nil && text != "inside\n" && text != "written\n" && text != "" {
			t.Fatalf("round %d: read %q from outside", i, got)
		}
		if err == nil {
			read++
		}
		if err := m.WriteFile(t.Context(), "cur/hostname", []byte("written\n"), 0); err == nil {
			written++
		} else if refused[err.Error()]++; errors.Is(err, machine.ErrUnavailable) {
			t.Fatalf("round %d: %v", i, err)
		}
	}
	if read == 0 || written == 0 {
		t.Errorf("%d reads and %d writes of %d met the file: the race was not run", read, written, raceRounds/2)
	}
	// If cur is a link at this moment, its target has a name that the test chose.
	r := execute(t, m, machine.Command{Script: `cat evil/hostname; rm -r "$(readlink evil)"; { ls -A . good work; [ -L cur ] || ls -A cur; } | grep -c '[.]flynn-'`})
	if string(r.Stdout) != "secret\n0\n" {
		t.Errorf("the file outside, and temporary files left: %q; errors of writes: %v", r.Stdout, refused)
	}
}
