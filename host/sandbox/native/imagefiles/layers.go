package imagefiles

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"

	"github.com/flynnhost/flynn/host/sandbox/frame"
	"github.com/flynnhost/flynn/host/sandbox/fsroot"
)

// Names with which a layer removes what is below: a name after the prefix, or all that the folder has had.
const (
	removalPrefix = ".wh."
	removesAll    = ".wh..wh..opq"
)

// unpacker puts layers on each other in a folder.
type unpacker struct {
	ctx     context.Context
	tree    fsroot.Tree
	bytes   int64 // that may still be unpacked
	entries int
	own     map[string]bool // what the layer has put, which it does not remove
}

// unpack makes a folder of the layers.
func (a *savedImage) unpack(ctx context.Context, folder string, l Limits) error {
	if err := os.Mkdir(folder, 0o755); err != nil {
		return err
	}
	root, err := os.OpenRoot(folder)
	if err != nil {
		return err
	}
	defer root.Close()
	u := &unpacker{ctx: ctx, tree: fsroot.Tree{Root: root, Mirror: true}, bytes: l.Bytes, entries: l.Entries}
	for i, layer := range a.layers {
		if err := u.layer(a.open(layer)); err != nil {
			return fmt.Errorf("layer %d: %w", i+1, err)
		}
	}
	return nil
}

// layer puts one layer, which may be compressed.
func (u *unpacker) layer(packed io.Reader) error {
	src := bufio.NewReader(&cancelled{u.ctx, packed})
	magic, _ := src.Peek(4)
	entries := tar.NewReader(src)
	switch {
	case bytes.HasPrefix(magic, []byte{0x1f, 0x8b}):
		unpacked, err := gzip.NewReader(src)
		if err != nil {
			return err
		}
		entries = tar.NewReader(unpacked)
	case bytes.HasPrefix(magic, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		return errors.New("it is compressed with zstd: " + howTo)
	}
	u.own = map[string]bool{}
	for {
		h, err := entries.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		u.entries--
		u.bytes -= h.Size
		if u.entries < 0 || u.bytes < 0 {
			return errTooMuch
		}
		if err := u.entry(h, entries); err != nil {
			return fmt.Errorf("%.200q: %w", h.Name, err)
		}
	}
}

// entry puts an entry, or removes those that it stands for.
func (u *unpacker) entry(h *tar.Header, content io.Reader) error {
	name, err := clean(h.Name)
	if err != nil {
		return err
	}
	dir, base := path.Split(name)
	switch {
	case base == removesAll:
		return u.clear(path.Clean(dir))
	case strings.HasPrefix(base, removalPrefix):
		return u.remove(path.Clean(dir), strings.TrimPrefix(base, removalPrefix))
	}
	r := frame.Record{Path: []byte(name), Mode: uint32(h.Mode) & 0o777, Mtime: h.ModTime.UnixNano()}
	switch h.Typeflag {
	case tar.TypeReg, tar.TypeGNUSparse:
		r.Mode, r.Size = r.Mode|frame.TypeFile|0o400, h.Size
	case tar.TypeDir:
		r.Mode |= frame.TypeFolder
	case tar.TypeSymlink:
		r.Mode, r.Link = frame.TypeLink, []byte(h.Linkname)
	case tar.TypeLink:
		return u.link(name, h.Linkname)
	case tar.TypeChar, tar.TypeBlock, tar.TypeFifo, tar.TypeXGlobalHeader:
		return nil // a sandbox has devices of its own
	default:
		return fmt.Errorf("it is neither file, folder nor link (type %q)", h.Typeflag)
	}
	if name == "." {
		return nil
	}
	u.own[name] = true
	if err := u.parents(name); err != nil {
		return err
	}
	return u.tree.Put(r, content)
}

// parents makes the folders above a name, which a layer need not have.
func (u *unpacker) parents(name string) error {
	if dir := path.Dir(name); dir != "." {
		return u.tree.Root.MkdirAll(dir, 0o755)
	}
	return nil
}

// link makes another name of a file.
func (u *unpacker) link(name, of string) error {
	of, err := clean(of)
	if err != nil {
		return err
	}
	info, err := u.tree.Root.Lstat(of)
	if err != nil {
		return err
	}
	if info.IsDir() || of == name {
		return fmt.Errorf("it is another name of %.80q, which is no file", of)
	}
	if err := u.parents(name); err != nil {
		return err
	}
	if err := u.tree.Root.RemoveAll(name); err != nil {
		return err
	}
	u.own[name] = true
	return u.tree.Root.Link(of, name)
}

// remove removes what earlier layers have at a name.
func (u *unpacker) remove(dir, base string) error {
	if base == "" || base == "." || base == ".." {
		return errors.New("it removes nothing that has a name")
	}
	if name := path.Join(dir, base); !u.own[name] {
		return u.tree.Root.RemoveAll(name)
	}
	return nil
}

// clear removes all that earlier layers have in a folder.
func (u *unpacker) clear(dir string) error {
	folder, err := u.tree.Root.Open(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	names, err := folder.Readdirnames(-1)
	folder.Close()
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := u.remove(dir, name); err != nil {
			return err
		}
	}
	return nil
}
