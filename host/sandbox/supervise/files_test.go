//go:build linux

package supervise

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/flynnhost/flynn/host/sandbox/frame"
	"github.com/flynnhost/flynn/host/sandbox/removeall"
)

// oldKernel is openBeneath where there is no openat2.
var oldKernel = walk

// newTestFiles serves a folder's files with the test's own identity.
func newTestFiles(t *testing.T, open func(int, string, uint64, uint64) (int, error)) (*files, string) {
	t.Helper()
	dir := t.TempDir()
	root, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		t.Fatal(err)
	}
	f := &files{jobs: make(chan func()), root: root, open: open}
	var served sync.WaitGroup
	served.Go(func() {
		for job := range f.jobs {
			job()
		}
	})
	t.Cleanup(func() { close(f.jobs); served.Wait(); unix.Close(root) })
	return f, dir
}

// readAll and replace do what read and write do, without a host.
func (f *files) readAll(name string) (string, error) {
	file, _, err := f.openRegular(name)
	if err != nil {
		return "", err
	}
	defer file.Close()
	p, err := io.ReadAll(io.LimitReader(file, 100))
	return string(p), err
}

func (f *files) replace(name, content string) error {
	return f.as(func() error {
		d, err := f.newDraft(name)
		if err != nil {
			return err
		}
		defer d.close()
		if _, err := d.file.WriteString(content); err != nil {
			return err
		}
		return d.commit(0)
	})
}

// Folders and files are swapped for links to the outside while they are read, written and removed, on a kernel with
// openat2 and on one without.
func TestSwapsNeverLeadOutside(t *testing.T) {
	for name, open := range map[string]func(int, string, uint64, uint64) (int, error){"openat2": openBeneath, "without": oldKernel} {
		t.Run(name, func(t *testing.T) {
			f, dir := newTestFiles(t, open)
			outside := t.TempDir()
			must := func(err error) {
				t.Helper()
				if err != nil {
					t.Fatal(err)
				}
			}
			must(os.WriteFile(filepath.Join(outside, "f"), []byte("outside"), 0o600))
			must(os.Mkdir(filepath.Join(outside, "keep"), 0o700))
			must(os.Mkdir(filepath.Join(dir, "cur"), 0o700))
			stop, swapped := make(chan struct{}), make(chan struct{})
			go func() {
				defer close(swapped)
				for i := 0; ; i++ {
					select {
					case <-stop:
						return
					default:
						swap(dir, []string{outside, "..", "/etc"}[i%3])
					}
				}
			}()
			met := 0
			for range 10_000 {
				if got, err := f.readAll("cur/f"); err == nil && got != "inside" {
					t.Errorf("read %q", got)
					break
				}
				if f.replace("cur/f", "inside") == nil {
					met++
				}
				_ = f.as(func() error { return f.removeAll("cur/keep") })
			}
			close(stop)
			<-swapped
			if met == 0 {
				t.Error("no write met the folder: the race was not run")
			}
			if got, err := os.ReadFile(filepath.Join(outside, "f")); err != nil || string(got) != "outside" {
				t.Errorf("the file outside holds %q (%v)", got, err)
			}
			if left, err := os.ReadDir(outside); err != nil || len(left) != 2 {
				t.Errorf("outside there are %v (%v)", left, err)
			}
		})
	}
}

func (f *files) removeAll(name string) error {
	at, err := f.beneath(filepath.Dir(name), unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	defer unix.Close(at)
	return removeall.Tree(at, filepath.Base(name), nil)
}

// swap puts a link in the place of cur and takes it away again, and does the same to the file in it.
func swap(dir, to string) {
	cur, old := filepath.Join(dir, "cur"), filepath.Join(dir, "old")
	_ = os.Rename(cur, old)
	_ = os.Symlink(to, cur)
	_ = os.Remove(cur)
	_ = os.Rename(old, cur)
	file := filepath.Join(cur, "f")
	_ = os.Remove(file)
	_ = os.Symlink(filepath.Join(to, "f"), file)
	_ = os.Remove(file)
}

// A path that is no file is refused at once, with the class that the host distinguishes.
func TestSpecialFiles(t *testing.T) {
	for name, open := range map[string]func(int, string, uint64, uint64) (int, error){"openat2": openBeneath, "without": oldKernel} {
		t.Run(name, func(t *testing.T) {
			f, dir := newTestFiles(t, open)
			in := func(name string) string { return filepath.Join(dir, name) }
			if err := errors.Join(unix.Mkfifo(in("pipe"), 0o600), bindSocket(in("socket")), os.Mkdir(in("folder"), 0o700),
				os.Symlink("/proc/self/mem", in("mem")), os.Symlink("/proc/self/fd/0", in("stdin")), os.Symlink("/dev/zero", in("zero")),
				os.Symlink("pipe", in("to-pipe")), os.Symlink("loop", in("loop"))); err != nil {
				t.Fatal(err)
			}
			paths := map[string]frame.Code{
				"pipe": frame.NotRegular, "socket": frame.NotRegular, "folder": frame.NotRegular, "mem": frame.Outside, "stdin": frame.Outside,
				"zero": frame.Outside, "loop": frame.Outside, "nosuch/f": frame.NotFound, "pipe/f": frame.NotFound, "../x": frame.Outside, "/etc/passwd": frame.Outside,
			}
			if err := unix.Mknod(in("null"), unix.S_IFCHR|0o666, 1<<8|3); err == nil {
				paths["null"] = frame.NotRegular
			}
			for path, want := range paths {
				_, err := f.readAll(path)
				// Without openat2 a link is refused for being none of a regular file.
				if err == nil || describe(err).Code != want && (name == "openat2" || describe(err).Code != frame.NotRegular) {
					t.Errorf("read %s: %v, want %s", path, err, want)
				}
				if strings.HasPrefix(path, "nosuch/") {
					continue // writing makes the folder
				}
				if path == "/etc/passwd" {
					continue // a write takes the path to be relative; the host sends no other
				}
				if err := f.replace(path, "x"); err == nil || describe(err).Code != want {
					t.Errorf("write %s: %v, want %s", path, err, want)
				}
			}
		})
	}
}

func bindSocket(path string) error {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.Bind(fd, &unix.SockaddrUnix{Name: path})
}

// importAll unpacks records as a request does.
func (f *files) importAll(place string, records []byte) error {
	var im *importer
	err := f.as(func() (err error) {
		im, err = f.newImporter(place)
		return err
	})
	if err != nil {
		return err
	}
	defer f.as(im.close)
	if err := im.unpack(frame.NewRecordReader(bytes.NewReader(records)), nil); err != nil {
		return err
	}
	return f.as(im.settle)
}

// FuzzImport unpacks hostile records: nothing appears outside the folder, and of what is refused nothing stays.
func FuzzImport(f *testing.F) {
	record := func(path string, mode uint32, link, content string) []byte {
		r := frame.Record{Path: []byte(path), Mode: mode, Link: []byte(link), Size: int64(len(content))}
		return append(r.Append(nil), content...)
	}
	const file, folder, link = frame.TypeFile | 0o644, frame.TypeFolder | 0o755, frame.TypeLink
	f.Add(record("d/f", file, "", "abc"))
	f.Add(append(record("l", link, "..", ""), record("l/f", file, "", "abc")...))
	f.Add(append(record("l", link, "/tmp", ""), record("h", file, "l", "")...))
	f.Add(append(record("d", folder, "", ""), record("d", file, "", "x")...))
	f.Add(append(record("a", file, "", "x"), record("b", file, "a", "")...))
	f.Fuzz(func(t *testing.T, records []byte) {
		for _, open := range []func(int, string, uint64, uint64) (int, error){openBeneath, oldKernel} {
			files, dir := newTestFiles(t, open)
			above := filepath.Dir(dir)
			before, err := os.ReadDir(above)
			if err != nil {
				t.Fatal(err)
			}
			refused := files.importAll("in/side", records)
			after, err := os.ReadDir(above)
			if err != nil || fmt.Sprint(before) != fmt.Sprint(after) {
				t.Errorf("outside there is %v, was %v (%v)", after, before, err)
			}
			left, err := os.ReadDir(dir)
			if err != nil || refused != nil && len(left) != 0 || refused == nil && len(left) != 1 {
				t.Errorf("refused: %v; left: %v (%v)", refused, left, err)
			}
		}
	})
}
