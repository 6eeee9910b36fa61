package sandbox

import (
	"archive/tar"
	"archive/zip"
	"bufio"
	"cmp"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"
	"time"

	"github.com/flynnhost/flynn/host/sandbox/frame"
)

// Limits bound an archive that somebody gave. Zero fields stand for the defaults.
type Limits struct {
	Bytes   int64 // of all entries together, unpacked. 1 GiB
	Entry   int64 // of one entry, unpacked. 256 MiB
	Entries int   // with folders. 100,000
	// Ratio is how many times larger than packed the whole may be, once it is larger than 1 MiB. 100
	Ratio int64
	// Packed bounds the archive itself. 1 GiB
	Packed int64
	// Hooks lets in what lies in .git/hooks, which git runs.
	Hooks bool
}

const (
	// ratioFree is what may be unpacked whatever its ratio.
	ratioFree = 1 << 20
	// maxParts bounds how deep an archive's folders are.
	maxParts = 64
)

func (l Limits) withDefaults() Limits {
	l.Bytes = cmp.Or(l.Bytes, 1<<30)
	l.Entry = cmp.Or(l.Entry, 256<<20)
	l.Entries = cmp.Or(l.Entries, 100_000)
	l.Ratio = cmp.Or(l.Ratio, 100)
	l.Packed = cmp.Or(l.Packed, 1<<30)
	return l
}

// ErrArchive is wrapped by the error about an archive that is refused.
var ErrArchive = errors.New("archive is refused")

// Tally counts what was packed or unpacked.
type Tally struct {
	Files   int64 `json:"files"` // with further names of one
	Folders int64 `json:"folders"`
	Links   int64 `json:"links"`
	Bytes   int64 `json:"bytes"`
	// Skipped counts special files and what could not be read when packing, and hooks of git when unpacking.
	Skipped int64 `json:"skipped"`
	// Torn counts files that became shorter while they were packed; zeros stand for the rest.
	Torn int64 `json:"torn,omitempty"`
}

func (t *Tally) count(r frame.Record) {
	switch r.Type() {
	case frame.TypeFolder:
		t.Folders++
	case frame.TypeLink:
		t.Links++
	default:
		t.Files++
		t.Bytes += r.Size
	}
}

// repacker reads an archive and writes what passes as records. Archives in it are files like others.
type repacker struct {
	limits Limits
	dir    string // where the archive is going to be unpacked
	tree   *tree
	out    *bufio.Writer
	buf    []byte
	tally  Tally
}

func newRepacker(l Limits, dir string, out io.Writer) *repacker {
	l = l.withDefaults()
	return &repacker{limits: l, dir: dir, tree: newTree(l.Entries, maxParts, true), out: bufio.NewWriterSize(out, frame.MaxData)}
}

// The first bytes of the formats; a tar has none that could be relied on.
const (
	gzipMagic = "\x1f\x8b"
	zipMagic  = "PK\x03\x04"
	zipEmpty  = "PK\x05\x06"
)

// repack reads a tar, a tar in gzip or a zip. The error wraps ErrArchive if the archive is to blame.
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

// refuse makes an error about the archive; entry may be "".
func refuse(entry string, why error) error {
	if entry == "" {
		return fmt.Errorf("%w: %w", ErrArchive, why)
	}
	return fmt.Errorf("%w: entry %.200q: %w", ErrArchive, entry, why)
}

// packedReader counts what is read of the archive itself. Its errors are the reader's, and not the archive's fault, apart
// from its size.
type packedReader struct {
	src    io.Reader
	n, max int64
	err    error
}

func (r *packedReader) Read(p []byte) (int, error) {
	n, err := r.src.Read(p)
	if r.n += int64(n); r.n > r.max {
		n -= int(min(r.n-r.max, int64(n)))
		err = refuse("", fmt.Errorf("it is larger than %d bytes", r.max))
	}
	if err != nil && err != io.EOF {
		r.err = err
	}
	return n, err
}

// blame says whose fault an error is that came up while reading the archive: the source's, or the archive's.
func (r *packedReader) blame(entry string, err error) error {
	switch {
	case r.err != nil:
		return r.err
	case errors.Is(err, ErrArchive):
		return err
	}
	return refuse(entry, err)
}

func (p *repacker) gzip(src io.Reader, packed *packedReader) error {
	unpacked, err := gzip.NewReader(src)
	if err != nil {
		return packed.blame("", err)
	}
	return p.tar(&ratioReader{src: unpacked, packed: packed, ratio: p.limits.Ratio}, packed)
}

// ratioReader refuses to go on when far more comes out than went in.
type ratioReader struct {
	src    io.Reader
	packed *packedReader
	n      int64
	ratio  int64
}

func (r *ratioReader) Read(p []byte) (int, error) {
	n, err := r.src.Read(p)
	if r.n += int64(n); r.n > ratioFree && r.n/r.ratio > r.packed.n {
		return 0, refuse("", fmt.Errorf("it grows to more than %d times its size", r.ratio))
	}
	return n, err
}

func (p *repacker) tar(src io.Reader, packed *packedReader) error {
	archive := tar.NewReader(src)
	for {
		h, err := archive.Next()
		switch {
		case err == io.EOF:
			return nil
		case errors.Is(err, tar.ErrHeader):
			return packed.blame("", fmt.Errorf("it is no tar, tar.gz or zip: %w", err))
		case err != nil:
			return packed.blame("", err)
		case h.Typeflag == tar.TypeXGlobalHeader: // git writes its commit there
			continue
		}
		r, err := tarRecord(h)
		if err != nil {
			return refuse(h.Name, err)
		}
		if _, err := p.entry(h.Name, r, archive, packed); err != nil {
			return err
		}
	}
}

func tarRecord(h *tar.Header) (frame.Record, error) {
	r := frame.Record{Mode: uint32(h.Mode), Mtime: mtime(h.ModTime)}
	switch h.Typeflag {
	case tar.TypeReg, tar.TypeGNUSparse:
		r.Mode, r.Size = fileBits(r.Mode), h.Size
	case tar.TypeDir:
		r.Mode = folderBits(r.Mode)
	case tar.TypeSymlink:
		r.Mode, r.Link = frame.TypeLink, []byte(h.Linkname)
	case tar.TypeLink:
		target, err := cleanName(h.Linkname)
		r.Mode, r.Link = fileBits(r.Mode), []byte(target)
		return r, err
	default:
		return r, fmt.Errorf("it is neither file, folder nor link (type %q)", h.Typeflag)
	}
	return r, nil
}

// fileBits keep the permissions of an archive's file, without those that are dangerous in anybody's hands but the packer's.
func fileBits(mode uint32) uint32   { return frame.TypeFile | mode&0o755 | 0o600 }
func folderBits(mode uint32) uint32 { return frame.TypeFolder | mode&0o755 | 0o700 }

// mtime is a time as records have it; times out of all reason are none.
func mtime(t time.Time) int64 {
	if s := t.Unix(); s <= 0 || s > 1<<33 {
		return 0
	}
	return t.UnixNano()
}

// cleanName turns an archive's name into a record's. It tolerates only what programs write: "./" in front, "/" behind.
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

// entry checks an entry and writes it, unless it is one to leave out. r has no path yet.
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
		p.tally.Skipped++
		return false, nil
	}
	p.tally.count(r)
	if p.tally.Bytes > p.limits.Bytes {
		return false, refuse("", fmt.Errorf("it unpacks to more than %d bytes", p.limits.Bytes))
	}
	return true, p.write(r, content, packed)
}

// unwanted says whether an entry is a hook and hooks are left out.
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
			return fmt.Errorf("it is another name of %.80q, which is no file before it", r.Link)
		}
	}
	return p.tree.add(name, r.Type())
}

// isHook says whether git would run what is there.
func isHook(name string) bool {
	name = "/" + fold(name) + "/"
	return strings.Contains(name, fold("/.git/hooks/"))
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

// sourceReader keeps what goes wrong with reading apart from what goes wrong with writing.
type sourceReader struct {
	src io.Reader
	err error
}

func (r *sourceReader) Read(p []byte) (int, error) {
	n, err := r.src.Read(p)
	r.err = err
	return n, err
}

// zipRecord is the record of a zip's entry. A link's target is its content.
func zipRecord(f *zip.File) (frame.Record, error) {
	mode := f.Mode()
	r := frame.Record{Mode: uint32(mode.Perm()), Mtime: mtime(f.Modified)}
	switch {
	case f.Flags&1 != 0:
		return r, errors.New("it is encrypted")
	case f.UncompressedSize64 > 1<<62:
		return r, errors.New("its size is impossible")
	case mode.IsDir() || strings.HasSuffix(f.Name, "/"):
		r.Mode = folderBits(r.Mode)
	case mode.Type() == fs.ModeSymlink:
		r.Mode = frame.TypeLink
	case mode.IsRegular():
		r.Mode, r.Size = fileBits(r.Mode), int64(f.UncompressedSize64)
	default:
		return r, fmt.Errorf("it is neither file, folder nor link (%v)", mode.Type())
	}
	return r, nil
}
