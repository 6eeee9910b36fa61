package policy

import (
	"fmt"
	"unsafe"

	"github.com/tetratelabs/wazero/experimental"
	"golang.org/x/sys/unix"
)

// shareFrom is the size in bytes from which mapping an image copy-on-write is faster than copying it, as measured.
const shareFrom = 512 << 10

// sharedImage is an image in a memory file, which instances map privately: a page is copied when it is written, and a reset drops the
// copies.
type sharedImage struct {
	fd   int
	size int
}

// share puts the image into a memory file if it is large enough. Otherwise resets copy it.
func (g *image) share() error {
	if len(g.memory) < shareFrom {
		return nil
	}
	fd, err := unix.MemfdCreate("flynn-policy", unix.MFD_CLOEXEC)
	if err != nil {
		return fmt.Errorf("make a memory file: %w", err)
	}
	for rest, at := g.memory, int64(0); len(rest) > 0; {
		n, err := unix.Pwrite(fd, rest, at)
		if err != nil {
			return fmt.Errorf("fill the memory file: %w", joinClose(err, fd))
		}
		rest, at = rest[n:], at+int64(n)
	}
	g.shared = sharedImage{fd: fd, size: len(g.memory)}
	return nil
}

func joinClose(err error, fd int) error {
	if closing := unix.Close(fd); closing != nil {
		return fmt.Errorf("%w; close it: %w", err, closing)
	}
	return err
}

func (g *image) close() {
	if g != nil && g.shared.size > 0 {
		// The kernel keeps what is still mapped; a memory file has nothing to flush that could fail.
		_ = unix.Close(g.shared.fd)
		g.shared = sharedImage{}
	}
}

// backing is the linear memory of one instance: a reservation of address space, so that growing neither copies nor moves it, and
// the garbage collector never sees it.
type backing struct {
	space *space
}

// space implements experimental.LinearMemory.
type space struct {
	reserved []byte
	mapped   int // bytes of the image that are mapped over the start
}

// newBacking returns the memory of a new instance.
func newBacking() (backing, experimental.MemoryAllocator) {
	s := &space{}
	return backing{s}, experimental.MemoryAllocatorFunc(func(_, most uint64) experimental.LinearMemory {
		reserved, err := unix.Mmap(-1, 0, int(most), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE)
		if err == nil {
			s.reserved = reserved
			return s
		}
		return &heap{}
	})
}

// Reallocate implements experimental.LinearMemory.
func (s *space) Reallocate(size uint64) []byte {
	if size > uint64(len(s.reserved)) {
		return nil
	}
	return s.reserved[:size:size]
}

// Free implements experimental.LinearMemory.
func (s *space) Free() {
	if s.reserved != nil {
		_ = unix.Munmap(s.reserved) // the range is the one that was mapped, so this cannot fail
		s.reserved = nil
	}
}

// heap is the memory of an instance for which no address space could be reserved.
type heap struct{ buf []byte }

// Reallocate implements experimental.LinearMemory.
func (h *heap) Reallocate(size uint64) []byte {
	if size > uint64(len(h.buf)) {
		h.buf = append(h.buf, make([]byte, size-uint64(len(h.buf)))...)
	}
	return h.buf[:size:size]
}

// Free implements experimental.LinearMemory.
func (h *heap) Free() {}

// attach maps the image over the start of the memory and reports whether it did.
func (b *backing) attach(g *image) bool {
	s := b.space
	if s == nil || s.reserved == nil || g.shared.size == 0 {
		return false
	}
	_, err := unix.MmapPtr(g.shared.fd, 0, unsafe.Pointer(unsafe.SliceData(s.reserved)), uintptr(g.shared.size),
		unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_FIXED)
	if err != nil {
		return false
	}
	s.mapped = g.shared.size
	return true
}

// reset drops the pages that were written and reports whether the memory equals the image again.
func (b *backing) reset() bool {
	return b.space != nil && b.space.mapped > 0 && unix.Madvise(b.space.reserved[:b.space.mapped], unix.MADV_DONTNEED) == nil
}
