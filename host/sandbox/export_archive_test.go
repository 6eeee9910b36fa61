package sandbox

import "io"

// Repack lets tests see the records that an archive comes to.
func Repack(archive io.Reader, l Limits, dir string, w io.Writer) (Tally, error) {
	p := newRepacker(l, dir, w)
	err := p.repack(archive)
	return p.tally, err
}
