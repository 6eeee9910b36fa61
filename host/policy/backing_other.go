//go:build !linux

package policy

import "github.com/tetratelabs/wazero/experimental"

// sharedImage is for systems that can map a memory file copy-on-write. Elsewhere resets copy.
type sharedImage struct{}

func (g *image) share() error { return nil }

func (g *image) close() {}

type backing struct{}

func newBacking() (backing, experimental.MemoryAllocator) { return backing{}, nil }

func (b *backing) attach(*image) bool { return false }

func (b *backing) reset() bool { return false }
