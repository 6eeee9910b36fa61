package author

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// codeCache returns the folder in which compiled code stays from one run to the next, so that who tests a policy that has not
// changed does not wait for the compiler again. It is in the user's own cache; without one, code is not kept.
func codeCache() (dir string, forget func() error, err error) {
	if home, err := os.UserCacheDir(); err == nil {
		dir := filepath.Join(home, "flynn", "policy-code")
		if os.MkdirAll(dir, 0o700) == nil && tidyCode(dir) == nil {
			return dir, func() error { return nil }, nil
		}
	}
	return temporaryCache()
}

// temporaryCache is one that begins empty.
func temporaryCache() (dir string, forget func() error, err error) {
	if dir, err = os.MkdirTemp("", "flynn-policy-*"); err != nil {
		return "", nil, err
	}
	return dir, func() error { return os.RemoveAll(dir) }, nil
}

// keepCode is how long code stays that nobody has used: each version of this program has its own.
const keepCode = 14 * 24 * time.Hour

// tidyCode removes what nobody has used for long. A folder in it is touched whenever code is added to it.
func tidyCode(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("tidy compiled policies: %w", err)
	}
	var errs []error
	for _, e := range entries {
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue // somebody else tidied
		}
		if err == nil && time.Since(info.ModTime()) > keepCode {
			err = os.RemoveAll(filepath.Join(dir, e.Name()))
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
