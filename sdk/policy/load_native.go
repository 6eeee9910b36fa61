//go:build !wasip1

package policy

// load32 reads a little-endian word that the caller knows to lie inside b.
func load32(b []byte, off uint32) uint32 {
	b = b[off : off+4]
	return uint32(b[0]) | uint32(b[1])<<8 | uint32(b[2])<<16 | uint32(b[3])<<24
}
