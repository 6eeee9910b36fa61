package archive

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
	"time"

	"github.com/flynnhost/flynn/host/sandbox/frame"
)

// maxParts bounds the depth of an archive's folders.
const maxParts = 64

// Repack reads a tar, a gzipped tar or a zip that will be unpacked in dir and writes the accepted entries as records. The error wraps
// ErrRefused if the archive is at fault; the output is useless then.
func Repack(archive io.Reader, l Limits, dir string, out io.Writer) (Tally, error) {
	l = l.withDefaults()
	p := &repacker{limits: l, dir: dir, tree: newTree(l.Entries, maxParts, true), out: bufio.NewWriterSize(out, frame.MaxData)}
	err := p.repack(archive)
	return p.tally, err
}

// repacker is the state of one Repack. Archives inside the archive are treated as plain files.
type repacker struct {
	limits Limits
	dir    string // where the archive will be unpacked
	tree   *tree
	out    *bufio.Writer
	buf    []byte
	tally  Tally
}

// Magic numbers of the formats; tar has none that is reliable.
const (
	gzipMagic = "\x1f\x8b"
	zipMagic  = "PK\x03\x04"
	zipEmpty  = "PK\x05\x06"
)

// repack detects the format.
func (p *repacker) repack(archive io.Reader) error {
	packed := &packedReader{src: archive, max: p.limits.Packed}
	src := bufio.NewReaderSize(packed, 32<<10)
	magic, err := src.Peek(4)
	if err != nil && err != io.EOF {
		return err
	}
	switch {
	case string(magic) == zipMagic, string(magic) == zipEmpty:
		err = p.zip(src, packed)
	case strings.HasPrefix(string(magic), gzipMagic):
		err = p.gzip(src, packed)
	default:
		err = p.tar(src, packed)
	}
	if err != nil {
		return err
	}
	return p.out.Flush()
}

// refuse returns an error about the archive; entry may be "".
func refuse(entry string, why error) error {
	if entry == "" {
		return fmt.Errorf("%w: %w", ErrRefused, why)
	}
	return fmt.Errorf("%w: entry %.200q: %w", ErrRefused, entry, why)
}

// entry checks an entry and writes it, unless it is to be left out. r.Path is not set yet.
func (p *repacker) entry(name string, r frame.Record, content io.Reader, packed *packedReader) (written bool, err error) {
	clean, err := cleanName(name)
	if err == nil && clean == "." && r.Type() == frame.TypeFolder {
		return false, nil // the folder itself
	}
	if err == nil {
		r.Path = []byte(clean)
		err = p.check(r)
	}
	if err != nil {
		return false, refuse(name, err)
	}
	if p.unwanted(clean) {
		p.tally.Leave(clean, Hook)
		return false, nil
	}
	p.tally.Count(r)
	if p.tally.Bytes > p.limits.Bytes {
		return false, refuse("", fmt.Errorf("it unpacks to more than %d bytes", p.limits.Bytes))
	}
	return true, p.write(r, content, packed)
}

// unwanted reports whether an entry is a git hook that is to be left out.
func (p *repacker) unwanted(name string) bool {
	return !p.limits.Hooks && isHook(path.Join(p.dir, name))
}

func (p *repacker) check(r frame.Record) error {
	if r.Size < 0 || r.Size > p.limits.Entry {
		return fmt.Errorf("it is larger than %d bytes", p.limits.Entry)
	}
	name := string(r.Path)
	switch {
	case r.Type() == frame.TypeLink:
		if err := checkLink(name, string(r.Link)); err != nil {
			return err
		}
	case len(r.Link) > 0:
		if !p.tree.isFile(string(r.Link)) || p.unwanted(string(r.Link)) {
			return fmt.Errorf("it is another name of %.80q, which is not a file before it", r.Link)
		}
	}
	return p.tree.add(name, r.Type())
}

func (p *repacker) write(r frame.Record, content io.Reader, packed *packedReader) error {
	p.buf = r.Append(p.buf[:0])
	if _, err := p.out.Write(p.buf); err != nil || r.Size == 0 {
		return err
	}
	src := &sourceReader{src: content}
	n, err := io.CopyN(p.out, src, r.Size)
	switch {
	case n == r.Size:
		return nil
	case src.err == io.EOF:
		return packed.blame(string(r.Path), io.ErrUnexpectedEOF)
	case src.err != nil:
		return packed.blame(string(r.Path), src.err)
	}
	return err
}

// fileBits returns the permissions of an unpacked file: readable and writable for the owner, with no set-id bits and no writing by others.
func fileBits(mode uint32) uint32   { return frame.TypeFile | mode&0o755 | 0o600 }
func folderBits(mode uint32) uint32 { return frame.TypeFolder | mode&0o755 | 0o700 }

// mtime converts a time to the form that records use; implausible times become 0.
func mtime(t time.Time) int64 {
	if s := t.Unix(); s <= 0 || s > 1<<33 {
		return 0
	}
	return t.UnixNano()
}

// cleanName converts an archive's name to a record's. It tolerates only what common programs write: a leading "./" and a trailing "/".
func cleanName(name string) (string, error) {
	for part := range strings.SplitSeq(name, "/") {
		if part == ".." {
			return "", errors.New("the name leads upwards")
		}
	}
	if path.IsAbs(name) {
		return "", errors.New("the name is absolute")
	}
	return path.Clean(name), nil
}
