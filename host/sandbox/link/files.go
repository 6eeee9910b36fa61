package link

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/flynnhost/flynn/host/sandbox/frame"
	"github.com/flynnhost/flynn/host/sandbox/machine"
)

const (
	// maxRead bounds one ReadFile.
	maxRead = 64 << 20
	// maxListing bounds the wire form of a folder's listing.
	maxListing = 8 << 20
)

// ReadFile reads at most n bytes of a file and returns the file's size. Names are relative to the workspace in all methods; the supervisor
// checks where they lead.
func (l *Link) ReadFile(ctx context.Context, name string, offset, n int64) ([]byte, int64, error) {
	if offset < 0 {
		return nil, 0, fmt.Errorf("read %s: offset %d is negative", name, offset)
	}
	n = min(max(n, 0), maxRead)
	var data []byte
	var reply frame.ReadReply
	err := l.transfer(ctx, request{
		typ: frame.Read, body: frame.ReadBody{Path: []byte(name), Offset: offset, Max: n},
		room: n, sink: func(p []byte) { data = append(data, p...) }, reply: &reply,
	})
	if err != nil {
		return nil, 0, fmt.Errorf("read %s: %w", name, err)
	}
	return data, max(reply.Size, 0), nil
}

// WriteFile is Put for data in memory.
func (l *Link) WriteFile(ctx context.Context, name string, data []byte, perm fs.FileMode) error {
	return l.Put(ctx, name, bytes.NewReader(data), int64(len(data)), perm)
}

// Put replaces a file atomically by the content of r; if size is not negative, r must have that size.
func (l *Link) Put(ctx context.Context, name string, r io.Reader, size int64, perm fs.FileMode) error {
	err := l.transfer(ctx, request{
		typ: frame.Write, body: frame.WriteBody{Path: []byte(name), Perm: uint32(perm.Perm()), Size: size},
		send: r, reply: &struct{}{},
	})
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}

// Hold writes a new file to frame.HeldFolder, where commands can read it but not change it.
func (l *Link) Hold(ctx context.Context, name string, data []byte) error {
	err := l.transfer(ctx, request{
		typ: frame.Write, body: frame.WriteBody{Path: []byte(name), Size: int64(len(data)), Held: true},
		send: bytes.NewReader(data), reply: &struct{}{},
	})
	if err != nil {
		return fmt.Errorf("hold %s: %w", name, err)
	}
	return nil
}

// Stat describes a path; links within the workspace are followed.
func (l *Link) Stat(ctx context.Context, name string) (machine.FileInfo, error) {
	var e frame.Entry
	if err := l.transfer(ctx, request{typ: frame.Stat, body: frame.StatBody{Path: []byte(name)}, reply: &e}); err != nil {
		return machine.FileInfo{}, fmt.Errorf("stat %s: %w", name, err)
	}
	info, err := fileInfo(e)
	return info, l.checked(err)
}

// Remove removes a file, a link or an empty folder; with all, also a folder with everything in it.
func (l *Link) Remove(ctx context.Context, name string, all bool) error {
	body := frame.RemoveBody{Path: []byte(name), All: all}
	if err := l.transfer(ctx, request{typ: frame.Remove, body: body, reply: &struct{}{}}); err != nil {
		return fmt.Errorf("remove %s: %w", name, err)
	}
	return nil
}

// List returns the entries of a folder, sorted by name.
func (l *Link) List(ctx context.Context, name string) ([]machine.FileInfo, error) {
	var lines bytes.Buffer
	err := l.transfer(ctx, request{
		typ: frame.List, body: frame.ListBody{Path: []byte(name)},
		room: maxListing, sink: func(p []byte) { lines.Write(p) }, reply: &struct{}{},
	})
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", name, err)
	}
	entries, err := parseListing(&lines)
	return entries, l.checked(err)
}

// parseListing parses one frame.Entry per line.
func parseListing(lines io.Reader) ([]machine.FileInfo, error) {
	infos := []machine.FileInfo{}
	d := json.NewDecoder(lines)
	d.DisallowUnknownFields()
	for {
		var e frame.Entry
		err := d.Decode(&e)
		if err == io.EOF {
			break
		}
		name := string(e.Name)
		if err != nil || name == "" || len(name) > 255 || strings.ContainsAny(name, "/\x00") || e.Size < 0 {
			return nil, fmt.Errorf("%w: malformed folder entry", frame.ErrProtocol)
		}
		infos = append(infos, machine.FileInfo{Name: name, Size: e.Size, Mode: fileMode(e.Mode), Mtime: time.Unix(0, e.Mtime)})
	}
	slices.SortFunc(infos, func(a, b machine.FileInfo) int { return cmp.Compare(a.Name, b.Name) })
	return infos, nil
}

// fileInfo validates what the supervisor reports about a file.
func fileInfo(e frame.Entry) (machine.FileInfo, error) {
	if e.Size < 0 {
		return machine.FileInfo{}, fmt.Errorf("%w: malformed entry", frame.ErrProtocol)
	}
	return machine.FileInfo{Name: string(e.Name), Size: e.Size, Mode: fileMode(e.Mode), Mtime: time.Unix(0, e.Mtime)}, nil
}

// fileMode translates st_mode; see inode(7).
func fileMode(mode uint32) fs.FileMode {
	types := map[uint32]fs.FileMode{
		unix.S_IFDIR: fs.ModeDir, unix.S_IFLNK: fs.ModeSymlink, unix.S_IFIFO: fs.ModeNamedPipe,
		unix.S_IFSOCK: fs.ModeSocket, unix.S_IFBLK: fs.ModeDevice, unix.S_IFCHR: fs.ModeDevice | fs.ModeCharDevice,
	}
	m := fs.FileMode(mode & 0o777)
	if mode&unix.S_IFMT != unix.S_IFREG {
		m |= cmp.Or(types[mode&unix.S_IFMT], fs.ModeIrregular)
	}
	for bit, flag := range map[uint32]fs.FileMode{unix.S_ISUID: fs.ModeSetuid, unix.S_ISGID: fs.ModeSetgid, unix.S_ISVTX: fs.ModeSticky} {
		if mode&bit != 0 {
			m |= flag
		}
	}
	return m
}
