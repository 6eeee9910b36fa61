package author

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// codeCache returns the folder that keeps compiled code from one run to the next, so that testing an unchanged policy does not wait for the
// compiler. It is in the user's cache folder; without one, code is not kept.
func codeCache() (dir string, forget func() error, err error) {
	if home, err := os.UserCacheDir(); err == nil {
		dir := filepath.Join(home, "flynn", "policy-code")
		if os.MkdirAll(dir, 0o700) == nil && tidyCode(dir) == nil {
			return dir, func() error { return nil }, nil
		}
	}
	return temporaryCache()
}

// temporaryCache returns an empty folder, which forget removes.
func temporaryCache() (dir string, forget func() error, err error) {
	if dir, err = os.MkdirTemp("", "flynn-policy-*"); err != nil {
		return "", nil, err
	}
	return dir, func() error { return os.RemoveAll(dir) }, nil
}

// keepCode is how long unused code is kept. Each version of this program has its own code.
const keepCode = 14 * 24 * time.Hour

// tidyCode removes code that was not used for long. A folder in dir is modified whenever code is added to it.
func tidyCode(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("tidy compiled policies: %w", err)
	}
	var errs []error
	for _, e := range entries {
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue // another process removed it
		}
		if err == nil && time.Since(info.ModTime()) > keepCode {
			err = os.RemoveAll(filepath.Join(dir, e.Name()))
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
