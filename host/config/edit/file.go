package edit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/internal/durable"
	"github.com/flynnhost/flynn/host/internal/filelock"
	"github.com/flynnhost/flynn/host/internal/fileowner"
)

// ErrChanged is the error of a save after somebody else changed the file.
var ErrChanged = errors.New("it has changed since it was read: look at it and make the edit again")

// maxFile is the size that the loader accepts, in bytes.
const maxFile = 1 << 20

// newMode is the mode of a file that was missing.
const newMode fs.FileMode = 0o600

// File is a configuration file that is being edited. Its Text is what Save writes.
type File struct {
	Text
	path   string
	before []byte
	info   fs.FileInfo // nil: the file was missing
	undo   []byte      // what the last Save replaced; nil: there was no file, or no Save
	undone []func() error
	made   []func() error
}

// Open reads a file to edit. It has to be a plain file of the user who runs the program; a link is refused, because the edit would replace
// it and leave its target as it was.
func Open(path string) (*File, error) {
	f := &File{path: path}
	var err error
	if f.before, f.info, err = read(path); err != nil {
		return nil, fmt.Errorf("edit %s: %w", path, err)
	}
	text, err := Parse(f.before)
	if err != nil {
		return nil, fmt.Errorf("edit %s: %w: run flynn config check", path, err)
	}
	f.Text = *text
	return f, nil
}

// openAny is Open for a file that need not be TOML. Until Replace its Text is empty then.
func openAny(path string) (*File, error) {
	f := &File{path: path}
	var err error
	if f.before, f.info, err = read(path); err != nil {
		return nil, fmt.Errorf("edit %s: %w", path, err)
	}
	if text, err := Parse(f.before); err == nil {
		f.Text = *text
	}
	return f, nil
}

// OpenOrNew is Open, but takes a missing file for an empty one.
func OpenOrNew(path string) (*File, error) {
	f, err := Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return &File{path: path}, nil
	}
	return f, err
}

// IfRefused has undo called if the edit does not come in force, before the next one begins. It brings back what was written beside the file.
func (f *File) IfRefused(undo func() error) { f.undone = append(f.undone, undo) }

// IfMade has then called when the edit is in force, before the next one begins.
func (f *File) IfMade(then func() error) { f.made = append(f.made, then) }

// end calls what IfRefused or IfMade were given.
func (f *File) end(err error) error {
	if err == nil {
		for _, then := range f.made {
			err = errors.Join(err, then())
		}
		return err
	}
	for _, undo := range f.undone {
		if undone := undo(); undone != nil {
			err = fmt.Errorf("%w, and not everything could be undone: %w", err, undone)
		}
	}
	return err
}

// IsNew reports whether the file was missing.
func (f *File) IsNew() bool { return f.info == nil }

// Replace sets the whole text, which must be valid TOML.
func (f *File) Replace(src []byte) error {
	text, err := Parse(src)
	if err == nil {
		f.Text = *text
	}
	return err
}

// Path returns the path of the file.
func (f *File) Path() string { return f.path }

// Before returns the text that the file had.
func (f *File) Before() []byte { return f.before }

// Diff returns the difference that Save would make.
func (f *File) Diff() string { return Diff(f.path, f.before, f.Bytes()) }

// Load loads the text as flynn serve would load the file. Secrets may be missing, because the host may have another environment.
func (f *File) Load(getenv func(string) string, checks ...config.Check) (*config.Config, error) {
	return config.LoadText(f.path, f.Bytes(), getenv, checks...)
}

// Save writes the file in one step, with its mode, for an Editor. It fails if the text does not load, or if the file is not the one that was read.
func (f *File) Save(getenv func(string) string, checks ...config.Check) error {
	if _, err := f.Load(getenv, checks...); err != nil {
		return err
	}
	replaced := f.before
	if err := f.write(f.Bytes()); err != nil {
		return err
	}
	f.undo = replaced
	return nil
}

// writable returns why the text cannot be written at the moment, such as that the disk is full.
func (f *File) writable() error {
	d, err := durable.Begin(filepath.Dir(f.path))
	if err == nil {
		defer d.Discard()
		_, err = d.Write(f.Bytes())
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", f.path, err)
	}
	return nil
}

// Undo brings back what the last Save replaced, which must have been a file. It fails if somebody else has changed the file since.
func (f *File) Undo() error {
	if f.undo == nil {
		return fmt.Errorf("edit %s: there is nothing to bring back", f.path)
	}
	if err := f.write(f.undo); err != nil {
		return err
	}
	f.undo = nil
	return f.Replace(f.before)
}

// BringBack writes a text over the one that an edit has made of the file at path; ErrChanged if somebody else has changed it since.
func BringBack(ctx context.Context, path string, edited, text []byte) error {
	release, err := filelock.WaitDir(ctx, filepath.Dir(path))
	if err != nil {
		return err
	}
	defer release()
	f, err := openAny(path)
	if err != nil {
		return err
	}
	if !bytes.Equal(f.before, edited) {
		return ErrChanged
	}
	return f.write(text)
}

// write writes a text over the one that was read, which it becomes. The caller holds the lock of the folder.
func (f *File) write(text []byte) (err error) {
	if err := f.unchanged(); err != nil {
		return fmt.Errorf("edit %s: %w", f.path, err)
	}
	mode := newMode
	if f.info != nil {
		mode = f.info.Mode().Perm()
	}
	if err := durable.WriteFile(f.path, text, mode); err != nil {
		return fmt.Errorf("write %s: %w", f.path, err)
	}
	f.before, f.info, err = read(f.path)
	return err
}

// unchanged compares the file with the one that was read.
func (f *File) unchanged() error {
	now, info, err := read(f.path)
	switch missing := errors.Is(err, fs.ErrNotExist); {
	case missing && f.info == nil:
		return nil
	case missing || err == nil && (f.info == nil || !os.SameFile(f.info, info) || !bytes.Equal(f.before, now)):
		return ErrChanged
	}
	return err
}

// read reads a plain file of our own.
func read(path string) ([]byte, fs.FileInfo, error) {
	named, err := os.Lstat(path)
	if err != nil {
		return nil, nil, bare(err)
	}
	if err := editable(path, named); err != nil {
		return nil, nil, err
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, bare(err)
	}
	defer f.Close()
	if opened, err := f.Stat(); err != nil || !os.SameFile(named, opened) {
		return nil, nil, errors.Join(ErrChanged, err)
	}
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(text) > maxFile {
		err = fmt.Errorf("larger than %s", config.Size(maxFile))
	}
	return text, named, err
}

func editable(path string, info fs.FileInfo) error {
	uid, known := fileowner.Of(info)
	switch {
	case info.Mode().Type() == fs.ModeSymlink:
		target, _ := os.Readlink(path)
		return fmt.Errorf("it is a symbolic link to %q: name the file itself with --config", target)
	case !info.Mode().IsRegular():
		return errors.New("it is not a regular file")
	case info.Mode().Perm()&0o200 == 0:
		return fmt.Errorf("it is read-only (mode %04o)", info.Mode().Perm())
	case known && uid != os.Geteuid():
		return fmt.Errorf("it belongs to user %d: run the command as that user", uid)
	}
	return nil
}

// bare drops the operation and path that the os package puts before an error; our messages name both.
func bare(err error) error {
	var perr *fs.PathError
	if errors.As(err, &perr) {
		return perr.Err
	}
	return err
}
