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

// InstanceName names a store among others on one engine, for as long as the store exists.
func InstanceName(storeDir string) (string, error) {
	path := filepath.Join(storeDir, "instance")
	text, err := os.ReadFile(path)
	if err == nil && len(text) > 0 {
		return string(text), nil
	}
	if err == nil { // a crash has left it empty
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

// placeName writes a name whole, unless another process has been faster: with a second name, the containers of the first one would belong
// to nobody.
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
		return os.Rename(draft.Name(), path) // a file system without links
	}
	return nil
}
