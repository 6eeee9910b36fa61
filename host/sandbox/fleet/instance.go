package fleet

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/flynnhost/flynn/host/store"
)

// InstanceName returns the name that distinguishes a store from others on one engine. It stays the same as long as the store exists.
func InstanceName(storeDir string) (string, error) {
	path := filepath.Join(storeDir, "instance")
	text, err := os.ReadFile(path)
	if err == nil && len(text) > 0 {
		return string(text), nil
	}
	if err == nil { // left empty by a crash
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", fmt.Errorf("name this instance: %w", err)
		}
	}
	if err := placeName(path, store.NewID(time.Now())); err != nil {
		return "", fmt.Errorf("name this instance: %w", err)
	}
	text, err = os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("name this instance: %w", err)
	}
	return string(text), nil
}

// placeName writes a name atomically, unless another process was faster: with a second name, the containers of the first would belong to
// nobody.
func placeName(path, name string) error {
	draft, err := os.CreateTemp(filepath.Dir(path), ".instance-*")
	if err != nil {
		return err
	}
	defer os.Remove(draft.Name())
	_, err = draft.WriteString(name)
	if err = errors.Join(err, draft.Close()); err != nil {
		return err
	}
	if err := os.Link(draft.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) {
		return os.Rename(draft.Name(), path) // the file system has no hard links
	}
	return nil
}
