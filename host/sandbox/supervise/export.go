//go:build linux

package supervise

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/flynnhost/flynn/host/sandbox/frame"
)

// maxTree bounds the entries of an export, and therefore the memory for them.
const maxTree = 1_000_000

// exportTree sends a folder as records.
func (f *files) exportTree(t *transfer, b frame.ExportBody) (any, error) {
	e := exporter{f: f, out: bufio.NewWriterSize(onlyWriter{t}, frame.MaxData), bare: b.Bare, most: b.MaxFile}
	e.reply.Began = time.Now().UnixNano()
	if b.Known {
		if err := e.learn(t); err != nil {
			return nil, err
		}
	}
	dir, err := f.openTree(string(b.Path))
	if err != nil {
		return nil, err
	}
	if err := e.folder(dir, "", 0); err != nil {
		return nil, err
	}
	return e.reply, e.out.Flush()
}

// openTree opens a folder of the workspace for reading.
func (f *files) openTree(name string) (*os.File, error) {
	var dir *os.File
	return dir, f.as(func() error {
		fd, err := f.beneath(name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NONBLOCK)
		if err == unix.ENOTDIR {
			return fail(frame.NotRegular, "not a folder")
		}
		if err == nil {
			dir = os.NewFile(uintptr(fd), "folder")
		}
		return err
	})
}

// exporter walks a folder. It assumes that everything can change between two system calls: a folder is opened only if it is still one, and
// a file is read only up to the announced size.
type exporter struct {
	f     *files
	out   *bufio.Writer
	bare  bool
	most  int64 // size of the largest file to send; 0 means any
	known map[string]frame.Record
	seen  int
	buf   []byte
	reply frame.ExportReply
}

// learn reads the records that the host already has.
func (e *exporter) learn(t *transfer) error {
	e.known = make(map[string]frame.Record)
	in := frame.NewRecordReader(t)
	for {
		r, err := in.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if len(e.known) >= maxTree {
			return fail(frame.TooLarge, fmt.Sprintf("more than %d entries are known", maxTree))
		}
		e.known[string(r.Path)] = r
	}
}

// found is an entry of a folder, opened if it is a file or folder.
type found struct {
	record frame.Record
	file   *os.File // may be nil
}

// folder sends the entries of dir and closes it.
func (e *exporter) folder(dir *os.File, prefix string, depth int) error {
	defer dir.Close()
	if depth > maxDepth {
		return fail(frame.TooLarge, fmt.Sprintf("folders are more than %d deep", maxDepth))
	}
	names, err := e.names(dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		var entry found
		err := e.f.as(func() (err error) {
			entry, err = e.look(int(dir.Fd()), name, prefix+name)
			return err
		})
		if err != nil {
			e.leave(prefix+name, err)
			continue
		}
		if err := e.send(entry, depth); err != nil {
			return err
		}
	}
	return nil
}

// leave counts an entry that is gone, has changed its type, or is not accessible to the workload.
func (e *exporter) leave(full string, why error) {
	e.reply.Skipped++
	list := &e.reply.Special
	if errors.Is(why, unix.EACCES) {
		list = &e.reply.Closed
	}
	if len(*list) < frame.MaxLeft && frame.CheckName(full) == nil {
		*list = append(*list, []byte(full))
	}
}

func (e *exporter) names(dir *os.File) ([]string, error) {
	names, err := dir.Readdirnames(maxTree - e.seen + 1)
	if err != nil && err != io.EOF {
		return nil, err
	}
	if e.seen += len(names); e.seen > maxTree {
		return nil, fail(frame.TooLarge, fmt.Sprintf("more than %d entries", maxTree))
	}
	slices.Sort(names)
	return names, nil
}

// look describes an entry and opens it. Entries whose path is too long for a record are skipped.
func (e *exporter) look(at int, name, full string) (found, error) {
	if err := frame.CheckName(full); err != nil {
		return found{}, err
	}
	var st unix.Stat_t
	if err := unix.Fstatat(at, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return found{}, err
	}
	var err error
	entry := found{record: describeEntry(full, st)}
	switch entry.record.Type() {
	case frame.TypeFolder:
		entry.file, err = openFolder(at, name)
	case frame.TypeLink:
		var link string
		link, err = readLink(at, name)
		entry.record.Link = []byte(link)
	case frame.TypeFile:
		if e.bare || e.unchanged(entry.record) || e.tooLarge(entry.record) {
			entry.record.Bare = true
			break
		}
		if entry.file, entry.record, err = openFile(at, name, full); err == unix.EACCES && e.known != nil {
			entry.record, err = describeEntry(full, st), nil // the host keeps its copy
			entry.record.Bare = true
		}
		if err == nil && entry.file != nil && e.tooLarge(entry.record) { // it has grown meanwhile
			entry.file.Close()
			entry.file, entry.record.Bare = nil, true
		}
	default:
		err = fail(frame.NotRegular, "a special file")
	}
	return entry, err
}

func describeEntry(full string, st unix.Stat_t) frame.Record {
	r := frame.Record{Path: []byte(full), Mode: st.Mode, Mtime: st.Mtim.Nano()}
	if r.Type() == frame.TypeFile {
		r.Size = st.Size
	}
	return r
}

// unchanged reports whether the host has the current version of the file.
func (e *exporter) unchanged(r frame.Record) bool {
	k, is := e.known[string(r.Path)]
	return is && k.Mode == r.Mode && k.Size == r.Size && k.Mtime == r.Mtime
}

func (e *exporter) tooLarge(r frame.Record) bool { return e.most > 0 && r.Size > e.most }

func openFile(at int, name, full string) (*os.File, frame.Record, error) {
	handle, err := unix.Openat(at, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, frame.Record{}, err
	}
	defer unix.Close(handle)
	file, st, err := reopenRegular(handle)
	return file, describeEntry(full, st), err
}

// send sends an entry, with its content or its entries.
func (e *exporter) send(entry found, depth int) error {
	e.buf = entry.record.Append(e.buf[:0])
	_, err := e.out.Write(e.buf)
	switch {
	case entry.file == nil:
		return err
	case entry.record.Type() == frame.TypeFolder:
		return cmp.Or(err, e.folder(entry.file, string(entry.record.Path)+"/", depth+1))
	}
	defer entry.file.Close()
	if err != nil {
		return err
	}
	n, err := io.Copy(e.out, io.LimitReader(entry.file, entry.record.Size))
	if err == nil && n < entry.record.Size {
		e.reply.Torn++
		_, err = io.CopyN(e.out, frame.Zeros{}, entry.record.Size-n)
	}
	return err
}
