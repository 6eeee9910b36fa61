package policy

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/tetratelabs/wazero"

	"github.com/flynnhost/flynn/host/internal/fileowner"
)

// openCache opens the cache of compiled modules. Its files are run as machine code and protected only by a checksum, so nobody else
// may write there. They depend on the compiler in this program, so each build of the program has its own folder.
func openCache(dir string) (wazero.CompilationCache, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the folder for compiled policies: %w", err)
	}
	if err := private(dir); err != nil {
		return nil, err
	}
	key, err := programKey()
	if err != nil {
		return nil, err
	}
	own := filepath.Join(dir, key)
	if err := os.Mkdir(own, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("make the folder for compiled policies: %w", err)
	}
	if err := private(own); err != nil {
		return nil, err
	}
	cache, err := wazero.NewCompilationCacheWithDir(own)
	if err != nil {
		return nil, fmt.Errorf("open the folder for compiled policies: %w", err)
	}
	return cache, nil
}

func private(dir string) error {
	info, err := os.Lstat(dir)
	if err != nil {
		return fmt.Errorf("check the folder for compiled policies: %w", err)
	}
	if !info.IsDir() || info.Mode().Perm() != 0o700 || !ours(info) {
		return fmt.Errorf("%s holds machine code and must be your own folder with mode 0700; it has %v: run chmod 700, or remove it", dir, info.Mode())
	}
	return nil
}

// programKey returns a key of this build of the program. The linker's build ID is in the first bytes; reading the whole
// program would cost more than the cache saves.
func programKey() (string, error) {
	path, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find this program: %w", err)
	}
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("read this program: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return "", fmt.Errorf("read this program: %w", err)
	}
	h := sha256.New()
	fmt.Fprintln(h, info.Size(), info.ModTime().UnixNano())
	if _, err := io.CopyN(h, f, 64<<10); err != nil && !errors.Is(err, io.EOF) {
		return "", fmt.Errorf("read this program: %w", err)
	}
	return hex.EncodeToString(h.Sum(nil)[:16]), nil
}

// ours reports whether a folder belongs to the user of this process, where folders belong to users with numbers.
func ours(info fs.FileInfo) bool {
	uid, ok := fileowner.Of(info)
	return !ok || uid == os.Geteuid()
}
