//go:build linux

package supervise

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// allocatorWord makes this program try to allocate, once it may not.
const allocatorWord = "allocator"

// allocate is that program: it fails where something is not as it should be.
func allocate(path string) error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	refuseAllocation()
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	for _, mode := range []uint32{0, unix.FALLOC_FL_KEEP_SIZE, unix.FALLOC_FL_ZERO_RANGE, unix.FALLOC_FL_ZERO_RANGE | unix.FALLOC_FL_KEEP_SIZE} {
		if err := unix.Fallocate(int(f.Fd()), mode, 0, 1<<20); !errors.Is(err, unix.EOPNOTSUPP) {
			return fmt.Errorf("mode %#x: %w", mode, err)
		}
	}
	if _, err := f.Write(make([]byte, 1<<20)); err != nil {
		return err
	}
	return unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, 0, 1<<20)
}

func TestNothingIsAllocatedAtOnce(t *testing.T) {
	if len(allocations()) == 0 {
		t.Skip("no filter for this processor")
	}
	path := filepath.Join(t.TempDir(), "f")
	out, err := exec.Command("/proc/self/exe", allocatorWord, path).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil || st.Size != 1<<20 || st.Blocks > 100 {
		t.Errorf("the file has %d bytes in %d blocks (%v)", st.Size, st.Blocks, err)
	}
}
