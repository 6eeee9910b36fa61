package backup

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"filippo.io/age"

	"github.com/flynnhost/flynn/host/config/edit"
	"github.com/flynnhost/flynn/host/internal/durable"
	"github.com/flynnhost/flynn/host/store/sqlite"
)

// The bounds of an archive. Its owner made it, but somebody who can write to where it was kept could have made another for the same key.
const (
	maxText    = 1 << 20   // of flynn.toml and of the head, in bytes
	maxList    = 512 << 20 // of the manifest
	maxEntries = 2_000_000
)

// Restored says what was restored, or looked at.
type Restored struct {
	Made   time.Time `json:"made"`
	Flynn  string    `json:"flynn"`
	Host   string    `json:"host"`
	Config string    `json:"config,omitempty"`
	Store  string    `json:"store,omitempty"`
	Files  int       `json:"files"`
	Bytes  int64     `json:"bytes"`
	Left   []Left    `json:"left,omitempty"`
}

// Target is where a backup is restored to.
type Target struct {
	Config string // the file flynn.toml, which must not exist
	Store  string // the folder of the store, which must not exist or be empty; "" for where the configuration has it
}

// Restore puts a backup back. Nothing is there before all of it was read and checked.
func Restore(ctx context.Context, path string, keys []age.Identity, to Target) (r Restored, err error) {
	x, err := open(ctx, path, keys)
	if err != nil {
		return r, fmt.Errorf("restore %s: %w", path, err)
	}
	defer func() {
		if err = errors.Join(err, x.close()); err != nil {
			err = fmt.Errorf("restore %s: %w", path, err)
		}
	}()
	if to.Config, err = filepath.Abs(to.Config); err != nil {
		return r, err
	}
	folder := filepath.Dir(to.Config)
	moved := to.Store != ""
	if !moved {
		if to.Store = x.head.Store; !filepath.IsAbs(to.Store) {
			if !filepath.IsLocal(to.Store) {
				return r, fmt.Errorf("its store is at %q: name another folder", to.Store)
			}
			to.Store = filepath.Join(folder, to.Store)
		}
	} else if to.Store, err = filepath.Abs(to.Store); err != nil {
		return r, err
	}
	if err := free(to); err != nil {
		return r, err
	}
	for _, dir := range []string{folder, filepath.Dir(to.Store)} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return r, err
		}
	}
	// Beside the final places, so that a name is all that they need at the end.
	staged := map[string]string{}
	for name, beside := range map[string]string{configFolder: to.Config, storeFolder: to.Store} {
		if staged[name], err = os.MkdirTemp(filepath.Dir(beside), durable.DraftPrefix+"restore-"); err != nil {
			return r, err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(staged[name])) }()
	}
	if err := x.extract(staged); err != nil {
		return r, err
	}
	if _, err := os.Stat(filepath.Join(staged[configFolder], "flynn.toml")); err != nil {
		return r, errors.New("it has no flynn.toml")
	}
	if err := whole(ctx, staged[storeFolder]); err != nil {
		return r, err
	}
	if moved {
		if err := setStore(filepath.Join(staged[configFolder], "flynn.toml"), to.Store); err != nil {
			return r, err
		}
	}
	if err := place(staged, to); err != nil {
		return r, err
	}
	r = x.restored()
	r.Config, r.Store = to.Config, to.Store
	return r, nil
}

// Verify reads all of a backup and checks it, its database included, in a folder for temporary files.
func Verify(ctx context.Context, path string, keys []age.Identity) (r Restored, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("verify %s: %w", path, err)
		}
	}()
	x, err := open(ctx, path, keys)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, x.close()) }()
	temp, err := os.MkdirTemp("", "flynn-verify-")
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(temp)) }()
	x.only = storeFolder + "/" + databaseFile
	if err := x.extract(map[string]string{storeFolder: temp}); err != nil {
		return r, err
	}
	return x.restored(), whole(ctx, temp)
}

// whole checks the database in a folder, if there is one; before the first start there is none.
func whole(ctx context.Context, dir string) error {
	path := filepath.Join(dir, databaseFile)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return sqlite.CheckWhole(ctx, path)
}

// free returns an error if something is where a backup is to go.
func free(to Target) error {
	if _, err := os.Lstat(to.Config); !errors.Is(err, fs.ErrNotExist) {
		return errors.Join(fmt.Errorf("%s is there already: name another place with --config, or move it away", to.Config), err)
	}
	entries, err := os.ReadDir(to.Store)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if len(entries) > 0 {
		return fmt.Errorf("the folder of the store, %s, is not empty: name another one with --store, or move it away", to.Store)
	}
	return nil
}

// place moves what was extracted to where it belongs, flynn.toml last: without it nothing is started.
func place(staged map[string]string, to Target) error {
	if err := os.Chmod(staged[storeFolder], 0o700); err != nil {
		return err
	}
	if err := os.Remove(to.Store); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Rename(staged[storeFolder], to.Store); err != nil {
		return err
	}
	from, folder := staged[configFolder], filepath.Dir(to.Config)
	var names []string
	err := filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			names = append(names, path)
		}
		return err
	})
	if err != nil {
		return err
	}
	first := filepath.Join(from, "flynn.toml")
	slices.SortFunc(names, func(a, b string) int {
		switch {
		case a == first:
			return 1
		case b == first:
			return -1
		}
		return strings.Compare(a, b)
	})
	for _, name := range names {
		in, err := filepath.Rel(from, name)
		if err != nil {
			return err
		}
		at := filepath.Join(folder, in)
		if name == first {
			at = to.Config
		}
		if _, err := os.Lstat(at); !errors.Is(err, fs.ErrNotExist) {
			return errors.Join(fmt.Errorf("%s is there already: move it away", at), err)
		}
		if err := os.MkdirAll(filepath.Dir(at), 0o700); err != nil {
			return err
		}
		if err := os.Rename(name, at); err != nil {
			return err
		}
	}
	return errors.Join(durable.SyncDir(folder), durable.SyncDir(filepath.Dir(to.Store)))
}

// setStore has a configuration name another folder of the store.
func setStore(path, dir string) error {
	src, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	text, err := edit.Parse(src)
	if err != nil {
		return err
	}
	if err := text.Set(dir, "store", "dir"); err != nil {
		return err
	}
	return durable.WriteFile(path, text.Bytes(), 0o600)
}

// archive is a backup that is being read.
type archive struct {
	ctx  context.Context // of the one call of Restore or Verify
	file *os.File
	tar  *tar.Reader
	// unpacked is what tar reads.
	unpacked io.Reader
	head     head
	only     string // the one file that is extracted; all if empty
	found    []entry
	bytes    int64
	left     []Left
}

// open opens a backup and reads its head.
func open(ctx context.Context, path string, keys []age.Identity) (x *archive, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	x = &archive{ctx: ctx, file: f}
	plain, err := age.Decrypt(f, keys...)
	var no *age.NoIdentityMatchError
	switch {
	case errors.As(err, &no):
		return nil, errors.Join(errors.New("it was made for another key or passphrase"), x.close())
	case err != nil:
		return nil, errors.Join(fmt.Errorf("it is no backup, or its beginning is damaged: %w", err), x.close())
	}
	unpacked, err := gzip.NewReader(plain)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("it is no backup of flynn: %w", err), x.close())
	}
	x.tar, x.unpacked = tar.NewReader(unpacked), unpacked
	h, err := x.tar.Next()
	if err != nil || h.Name != headName {
		return nil, errors.Join(errors.New("it is no backup of flynn"), err, x.close())
	}
	text, err := x.text(h, maxText)
	if err == nil {
		err = strictly(text, &x.head)
	}
	if err == nil && x.head.Format != format {
		err = fmt.Errorf("it has format %d, and this flynn reads %d: use the flynn of the backup, %s, or a later one", x.head.Format, format, x.head.Flynn)
	}
	if err != nil {
		return nil, errors.Join(err, x.close())
	}
	return x, nil
}

func (x *archive) close() error { return x.file.Close() }

func (x *archive) restored() Restored {
	return Restored{Made: x.head.Made, Flynn: x.head.Flynn, Host: x.head.Host, Files: len(x.found), Bytes: x.bytes, Left: x.left}
}

func strictly(text []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	return d.Decode(into)
}

// text reads an entry and counts it as found.
func (x *archive) text(h *tar.Header, most int64) ([]byte, error) {
	if h.Typeflag != tar.TypeReg || h.Size > most {
		return nil, fmt.Errorf("%s has %d bytes, which is more than it may", h.Name, h.Size)
	}
	var text bytes.Buffer
	err := x.to(h, &text)
	return text.Bytes(), err
}

// to copies the contents of an entry.
func (x *archive) to(h *tar.Header, w io.Writer) error {
	sum := sha256.New()
	n, err := io.Copy(io.MultiWriter(w, sum), x.tar)
	if err != nil {
		return cut(err)
	}
	x.bytes += n
	x.found = append(x.found, entry{Name: listed(h.Name), Size: n, SHA256: hex.EncodeToString(sum.Sum(nil))})
	return nil
}

// cut explains the end of a file in its middle.
func cut(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		return errors.New("it ends in its middle: it was cut short, and nothing was restored")
	}
	return err
}

// extract reads all entries into folders by their first name, and compares them with the manifest.
func (x *archive) extract(into map[string]string) error {
	roots := map[string]*os.Root{}
	for name, dir := range into {
		root, err := os.OpenRoot(dir)
		if err != nil {
			return err
		}
		defer root.Close()
		roots[name] = root
	}
	var times []func() error // of folders, which change while files come in
	for {
		if err := x.ctx.Err(); err != nil {
			return err
		}
		h, err := x.tar.Next()
		if err != nil {
			return cut(err)
		}
		if h.Name == manifestName {
			for _, set := range slices.Backward(times) {
				if err := set(); err != nil {
					return err
				}
			}
			return x.compare(h)
		}
		if len(x.found) == maxEntries {
			return fmt.Errorf("it has more than %d files", maxEntries)
		}
		name := strings.TrimSuffix(h.Name, "/")
		in, rest, _ := strings.Cut(name, "/")
		if !filepath.IsLocal(rest) || in != configFolder && in != storeFolder {
			return fmt.Errorf("%q is no name of a file in a backup", h.Name)
		}
		if err := x.one(h, roots[in], filepath.FromSlash(rest), &times); err != nil {
			return err
		}
	}
}

// one extracts an entry; root is nil if it is read only.
func (x *archive) one(h *tar.Header, root *os.Root, name string, times *[]func() error) error {
	if x.only != "" && h.Name != x.only {
		root = nil
	}
	if root != nil {
		if err := root.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			return err
		}
	}
	switch h.Typeflag {
	case tar.TypeReg:
		if root == nil {
			return x.to(h, io.Discard)
		}
		f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return err
		}
		err = x.to(h, f)
		if err := errors.Join(err, f.Chmod(fs.FileMode(h.Mode).Perm()), f.Sync(), f.Close()); err != nil {
			return err
		}
		return finish(h, root, name)
	case tar.TypeDir:
		if root == nil {
			break
		}
		if err := root.Mkdir(name, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		*times = append(*times, func() error {
			return errors.Join(root.Chmod(name, fs.FileMode(h.Mode).Perm()), finish(h, root, name))
		})
	case tar.TypeSymlink:
		if !strings.HasPrefix(h.Name, storeFolder+"/") || h.Name == storeFolder+"/"+databaseFile {
			return fmt.Errorf("%q is a link, which only folders of agents have", h.Name)
		}
		if root == nil {
			break
		}
		if err := root.Symlink(h.Linkname, name); err != nil {
			return err
		}
	default:
		return fmt.Errorf("%q is of a kind that a backup does not have", h.Name)
	}
	x.found = append(x.found, entry{Name: listed(h.Name)})
	return nil
}

// finish gives a file its time, and its owner where this process may.
func finish(h *tar.Header, root *os.Root, name string) error {
	if os.Geteuid() == 0 && h.Uid != 0 {
		if err := root.Lchown(name, h.Uid, h.Uid); err != nil {
			return err
		}
	}
	return root.Chtimes(name, h.ModTime, h.ModTime)
}

// compare compares what was found with the manifest, and reads to the end, which shows whether the encryption is whole.
func (x *archive) compare(h *tar.Header) error {
	found := slices.Clone(x.found)
	text, err := x.text(h, maxList)
	if err != nil {
		return err
	}
	x.found = found
	var m manifest
	if err := strictly(text, &m); err != nil {
		return fmt.Errorf("its list of files: %w", err)
	}
	if !slices.Equal(m.Entries, found) {
		return errors.New("its files are not those of its list: it was changed, or damaged when it was made")
	}
	x.left = m.Left
	if _, err := x.tar.Next(); err != io.EOF {
		return errors.Join(errors.New("something follows its list of files"), err)
	}
	if n, err := io.Copy(io.Discard, x.unpacked); err != nil || n > 0 {
		return errors.Join(fmt.Errorf("%d bytes follow its last file", n), err)
	}
	return nil
}
