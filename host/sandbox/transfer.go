package sandbox

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/flynnhost/flynn/host/machine"
	"github.com/flynnhost/flynn/host/sandbox/frame"
)

const (
	// maxRead bounds one ReadFile.
	maxRead = 64 << 20
	// maxListing bounds the wire form of a folder's listing.
	maxListing = 8 << 20
)

// request is anything but a command: a body, perhaps bytes one way, a reply.
type request struct {
	typ   frame.Type
	body  any
	send  io.Reader // or nil
	room  int64
	sink  func(p []byte) // or nil
	reply any            // where to decode the reply
}

// transfer does a request.
func (b *box) transfer(ctx context.Context, r request) error {
	f, err := b.openFlow(ctx, r.typ, r.body, r.room)
	if err != nil {
		return err
	}
	defer f.close()
	if r.send != nil {
		if err := f.send(ctx, r.send); err != nil {
			return err
		}
	}
	return f.finish(ctx, r.sink, r.reply)
}

// checked ends the link when err is a breach of the protocol.
func (b *box) checked(err error) error {
	if errors.Is(err, frame.ErrProtocol) {
		b.link.fail(err)
		return fmt.Errorf("%w: %w", machine.ErrUnavailable, err)
	}
	return err
}

func (b *box) readFile(ctx context.Context, name string, offset, n int64) ([]byte, int64, error) {
	if offset < 0 {
		return nil, 0, fmt.Errorf("read %s: offset %d is negative", name, offset)
	}
	n = min(max(n, 0), maxRead)
	var data []byte
	var reply frame.ReadReply
	err := b.transfer(ctx, request{
		typ: frame.Read, body: frame.ReadBody{Path: []byte(name), Offset: offset, Max: n},
		room: n, sink: func(p []byte) { data = append(data, p...) }, reply: &reply,
	})
	if err != nil {
		return nil, 0, fmt.Errorf("read %s: %w", name, err)
	}
	return data, max(reply.Size, 0), nil
}

func (b *box) writeFile(ctx context.Context, name string, data []byte, perm fs.FileMode) error {
	return b.put(ctx, name, bytes.NewReader(data), int64(len(data)), perm)
}

func (b *box) listFolder(ctx context.Context, name string) ([]machine.FileInfo, error) {
	var lines bytes.Buffer
	err := b.transfer(ctx, request{
		typ: frame.List, body: frame.ListBody{Path: []byte(name)},
		room: maxListing, sink: func(p []byte) { lines.Write(p) }, reply: &struct{}{},
	})
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", name, err)
	}
	entries, err := parseListing(&lines)
	return entries, b.checked(err)
}

// parseListing reads one frame.Entry a line.
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
