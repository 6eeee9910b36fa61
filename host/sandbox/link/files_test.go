package link

import (
	"bytes"
	"errors"
	"io/fs"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/flynnhost/flynn/host/sandbox/frame"
)

func TestFileMode(t *testing.T) {
	for mode, want := range map[uint32]fs.FileMode{
		unix.S_IFREG | 0o644: 0o644, unix.S_IFDIR | 0o1777: fs.ModeDir | fs.ModeSticky | 0o777,
		unix.S_IFLNK | 0o777: fs.ModeSymlink | 0o777, unix.S_IFCHR | 0o600: fs.ModeDevice | fs.ModeCharDevice | 0o600,
		unix.S_IFREG | 0o4755: fs.ModeSetuid | 0o755, 0: fs.ModeIrregular,
	} {
		if got := fileMode(mode); got != want {
			t.Errorf("%o: got %v, want %v", mode, got, want)
		}
	}
}

// FuzzListing feeds hostile listings: whatever is accepted names single path elements only.
func FuzzListing(f *testing.F) {
	f.Add(append(frame.Encode(frame.Entry{Name: []byte("f"), Size: 1, Mode: unix.S_IFREG}), '\n'))
	f.Add(frame.Encode(frame.Entry{Name: []byte("../f")}))
	f.Add([]byte(`{"n":"Zg==","s":-1}{`))
	f.Fuzz(func(t *testing.T, lines []byte) {
		infos, err := parseListing(bytes.NewReader(lines))
		if err != nil {
			if !errors.Is(err, frame.ErrProtocol) {
				t.Errorf("wrong kind: %v", err)
			}
			return
		}
		for _, i := range infos {
			if i.Name == "" || strings.ContainsAny(i.Name, "/\x00") || i.Size < 0 {
				t.Errorf("accepted %+v", i)
			}
		}
	})
}
