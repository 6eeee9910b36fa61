package machinetest

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/flynnhost/flynn/host/sandbox/machine"
)

func testFiles(t *testing.T, m machine.Machine) {
	binary := []byte("a\x00b\xff\r\n\n")
	for _, c := range []struct {
		name, path string
		data       []byte
	}{
		{"plain", "plain.txt", []byte("hello\n")},
		{"no newline at the end", "plain.txt", []byte("hello")},
		{"empty", "empty", []byte{}},
		{"binary", "binary", binary},
		{"in new folders", "a/b/c/file", []byte("deep")},
		{"odd name", "with space 'and' \"quotes\" $x;*.txt", []byte("odd")},
		{"name with a newline", "two\nlines", []byte("odd")},
		{"name in UTF-8", "ünïcode-文.txt", []byte("utf8")},
		{"leading dash", "-rf", []byte("dash")},
		{"dots inside", "a/./b/../b/file", []byte("dots")},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := m.WriteFile(t.Context(), c.path, c.data, 0o644); err != nil {
				t.Fatal(err)
			}
			got, size, err := m.ReadFile(t.Context(), c.path, 0, 1<<20)
			if err != nil || !bytes.Equal(got, c.data) || size != int64(len(c.data)) {
				t.Errorf("read %q, size %d, error %v; want %q", got, size, err, c.data)
			}
		})
	}
	t.Run("ranges", func(t *testing.T) { testRanges(t, m) })
	t.Run("commands and files see each other", func(t *testing.T) {
		execute(t, m, machine.Command{Script: "printf from-shell >shell.txt; ln -s shell.txt inner"})
		if got, _, err := m.ReadFile(t.Context(), "inner", 0, 100); err != nil || string(got) != "from-shell" {
			t.Errorf("read %q through a link that stays inside, error %v", got, err)
		}
		if err := m.WriteFile(t.Context(), "tool.txt", []byte("from-tool"), 0); err != nil {
			t.Fatal(err)
		}
		if r := execute(t, m, machine.Command{Script: "cat tool.txt"}); string(r.Stdout) != "from-tool" {
			t.Errorf("the shell read %q", r.Stdout)
		}
	})
	t.Run("mode", func(t *testing.T) {
		if err := m.WriteFile(t.Context(), "run.sh", []byte("#!/bin/sh\necho ran\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		if r := execute(t, m, machine.Command{Script: "./run.sh"}); string(r.Stdout) != "ran\n" {
			t.Errorf("a file written executable: %q, stderr %q", r.Stdout, r.Stderr)
		}
	})
	t.Run("replaces at once", func(t *testing.T) {
		execute(t, m, machine.Command{Script: "echo old >replaced; exec 3<replaced; ln replaced kept"})
		if err := m.WriteFile(t.Context(), "replaced", []byte("new"), 0o644); err != nil {
			t.Fatal(err)
		}
		if r := execute(t, m, machine.Command{Script: "cat replaced kept; ls -A | grep -c flynn"}); string(r.Stdout) != "newold\n0\n" {
			t.Errorf("content after a replacement, old link, temporary files: %q", r.Stdout)
		}
	})
	t.Run("absolute path inside", func(t *testing.T) {
		r := execute(t, m, machine.Command{Script: `printf %s "$(pwd)/absolute"`})
		if err := m.WriteFile(t.Context(), string(r.Stdout), []byte("abs"), 0o644); err != nil {
			t.Fatal(err)
		}
		if got, _, err := m.ReadFile(t.Context(), "absolute", 0, 10); err != nil || string(got) != "abs" {
			t.Errorf("read %q, error %v", got, err)
		}
	})
}

func testRanges(t *testing.T, m machine.Machine) {
	if err := m.WriteFile(t.Context(), "digits", []byte("0123456789"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name        string
		offset, max int64
		want        string
	}{
		{"start", 0, 3, "012"},
		{"middle", 4, 2, "45"},
		{"past the end", 8, 100, "89"},
		{"at the end", 10, 5, ""},
		{"behind the end", 1000, 5, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, size, err := m.ReadFile(t.Context(), "digits", c.offset, c.max)
			if err != nil || string(got) != c.want || size != 10 {
				t.Errorf("read %q, size %d, error %v; want %q of 10", got, size, err, c.want)
			}
		})
	}
	if _, _, err := m.ReadFile(t.Context(), "digits", -1, 5); err == nil {
		t.Error("a negative offset was taken")
	}
}

func testFileRefusals(t *testing.T, m machine.Machine) {
	execute(t, m, machine.Command{Script: `
		mkdir folder; echo x >file; mkfifo pipe
		ln -s /etc/passwd passwd; ln -s / root; ln -s ../.. up; ln -s loop loop; ln -s nowhere dangling
		ln -s /tmp/flynn-new new-outside; ln -s pipe to-pipe`})
	for _, c := range []struct {
		name, path  string
		read, write error // nil: any error
	}{
		{"missing", "missing", machine.ErrNotFound, errNone},
		{"missing folder", "no/such/file", machine.ErrNotFound, errNone},
		{"outside", "../x", machine.ErrOutside, machine.ErrOutside},
		{"outside after going in", "folder/../../x", machine.ErrOutside, machine.ErrOutside},
		{"absolute outside", "/etc/passwd", machine.ErrOutside, machine.ErrOutside},
		{"link to a file outside", "passwd", machine.ErrOutside, machine.ErrOutside},
		{"link to a new file outside", "new-outside", machine.ErrOutside, machine.ErrOutside},
		{"link to a folder outside", "root/etc/passwd", machine.ErrOutside, machine.ErrOutside},
		{"link upwards", "up/x", machine.ErrOutside, machine.ErrOutside},
		{"link to itself", "loop", nil, nil},
		{"link to nothing", "dangling", machine.ErrNotFound, errNone},
		{"folder", "folder", machine.ErrNotRegular, machine.ErrNotRegular},
		{"workspace", ".", machine.ErrNotRegular, machine.ErrNotRegular},
		{"no path", "", nil, nil},
		{"pipe", "pipe", machine.ErrNotRegular, machine.ErrNotRegular},
		{"link to a pipe", "to-pipe", machine.ErrNotRegular, machine.ErrNotRegular},
		{"file as a folder", "file/x", nil, nil},
		{"zero byte", "a\x00b", nil, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got, _, err := m.ReadFile(t.Context(), c.path, 0, 100); err == nil || (c.read != nil && !errors.Is(err, c.read)) {
				t.Errorf("read %q, error %v; want %v", got, err, c.read)
			}
			err := m.WriteFile(t.Context(), c.path, []byte("written"), 0o644)
			switch {
			case errors.Is(c.write, errNone):
				if err != nil {
					t.Errorf("write: %v, want none", err)
				}
			case err == nil || (c.write != nil && !errors.Is(err, c.write)):
				t.Errorf("write: %v, want %v", err, c.write)
			}
		})
	}
	r := execute(t, m, machine.Command{Script: "test ! -e /tmp/flynn-new && cat file && test -p pipe"})
	if r.ExitCode != 0 || string(r.Stdout) != "x\n" {
		t.Errorf("something was touched all the same: %q %q", r.Stdout, r.Stderr)
	}
}

// errNone stands for no error in a table.
var errNone = errors.New("no error")

func testBigFile(t *testing.T, m machine.Machine) {
	big := make([]byte, 8<<20)
	random := rand.NewChaCha8([32]byte{1})
	_, _ = random.Read(big) // never fails
	if err := m.WriteFile(t.Context(), "big", big, 0o644); err != nil {
		t.Fatal(err)
	}
	got, size, err := m.ReadFile(t.Context(), "big", 0, int64(len(big)))
	if err != nil || size != int64(len(big)) || !bytes.Equal(got, big) {
		t.Fatalf("read %d bytes of %d, error %v; want %d equal ones", len(got), size, err, len(big))
	}
	got, _, err = m.ReadFile(t.Context(), "big", 5<<20, 1000)
	if err != nil || !bytes.Equal(got, big[5<<20:5<<20+1000]) {
		t.Errorf("read %d bytes from the middle, error %v", len(got), err)
	}
}

func testList(t *testing.T, m machine.Machine) {
	execute(t, m, machine.Command{Script: "mkdir d d/sub; printf 12345 >d/file; ln -s / d/out; : >d/.hidden; mkfifo d/pipe; ln -s / out"})
	list, err := m.List(t.Context(), "d")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range list {
		names = append(names, f.Name)
		if f.Name == "file" && (f.Size != 5 || !f.Mode.IsRegular() || f.Mtime.IsZero()) {
			t.Errorf("file: %+v", f)
		}
		if f.Name == "sub" && !f.Mode.IsDir() {
			t.Errorf("sub: %+v", f)
		}
	}
	want := []string{".hidden", "file", "out", "pipe", "sub"}
	if len(names) != len(want) {
		t.Fatalf("list %q, want %q", names, want)
	}
	for i := range want {
		if names[i] != want[i] {
			t.Errorf("list %q, want %q", names, want)
		}
	}
	if root, err := m.List(t.Context(), ""); err != nil || len(root) != 2 {
		t.Errorf("list of the workspace: %v, error %v; want two entries", root, err)
	}
	for path, want := range map[string]error{"missing": machine.ErrNotFound, "..": machine.ErrOutside, "/": machine.ErrOutside, "out": machine.ErrOutside, "d/file": nil} {
		if list, err := m.List(t.Context(), path); err == nil || (want != nil && !errors.Is(err, want)) {
			t.Errorf("list %s: %v, error %v; want %v", path, list, err, want)
		}
	}
}
