package mounts

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"
)

// spelled returns an existing path as its folders spell it: where a file system ignores case, one folder has many names, and the rules
// compare names. It refuses a name that cannot be found with certainty, such as one in another Unicode normalisation. names returns the
// names in a folder.
func spelled(path string, names func(folder string) ([]string, error)) (string, error) {
	if path == filepath.Dir(path) {
		return path, nil
	}
	folder, err := spelled(filepath.Dir(path), names)
	if err != nil {
		return "", err
	}
	all, err := names(folder)
	if err != nil {
		return "", err
	}
	base := filepath.Base(path)
	if slices.Contains(all, base) {
		return filepath.Join(folder, base), nil
	}
	alike := slices.DeleteFunc(all, func(name string) bool { return !strings.EqualFold(name, base) })
	if len(alike) != 1 {
		return "", errors.New("its folder lists it under another name")
	}
	return filepath.Join(folder, alike[0]), nil
}
