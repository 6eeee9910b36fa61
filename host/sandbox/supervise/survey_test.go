//go:build linux

package supervise

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Files below the depth to which folders are held open count like the rest, wherever the tree branches.
func TestWhatIsDeepCounts(t *testing.T) {
	f, dir := newTestFiles(t, openBeneath)
	const perFile = 1 << 20
	files, folders := 0, 0
	content := make([]byte, perFile)
	at := dir
	for depth := range surveyDepth + 60 {
		at = filepath.Join(at, "d")
		err := os.Mkdir(at, 0o700)
		folders++
		if depth%20 == 0 || depth > surveyDepth-3 && depth < surveyDepth+3 {
			side := filepath.Join(at, "a", "b")
			err = errors.Join(err, os.MkdirAll(side, 0o700), os.WriteFile(filepath.Join(side, "f"), content, 0o600),
				os.WriteFile(filepath.Join(at, "f"), content, 0o600), os.Symlink(dir, filepath.Join(at, "link")))
			files, folders = files+2, folders+3
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	open := countDescriptors(t)
	d := newDisk(f, usage{1 << 40, 1 << 20})
	d.look()
	u := d.held
	if want := int64(files + folders); u.entries != want {
		t.Errorf("%d entries of %d", u.entries, want)
	}
	if least := int64(files) * perFile; u.bytes < least || u.bytes > least+least/2 {
		t.Errorf("%d bytes in files of %d", u.bytes, least)
	}
	if left := countDescriptors(t); left > open { // what an earlier test has forgotten may be closed meanwhile
		t.Errorf("%d descriptors are open, %d were before", left, open)
	}
	w := survey{deadline: time.Now().Add(time.Minute), see: func([]byte, string, *unix.Stat_t) bool { return true }}
	if w.run(f.root); !w.cut {
		t.Error("without deep it has seen all")
	}
}

// countDescriptors is how many descriptors this process has.
func countDescriptors(t *testing.T) int {
	t.Helper()
	names, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", os.Getpid()))
	if err != nil {
		t.Fatal(err)
	}
	return len(names)
}
