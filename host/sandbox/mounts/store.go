package mounts

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// StoreMarks are the files by which the store of any Flynn host is recognised: the database, or the name and the workspaces of a store
// without a database. Stores contain secrets and conversations.
func StoreMarks() [][]string { return [][]string{{"flynn.db"}, {"instance", "workspaces"}} }

// isStore reports whether the names are those of a store.
func isStore(has func(name string) bool) bool {
	return slices.ContainsFunc(StoreMarks(), func(marks []string) bool {
		return !slices.ContainsFunc(marks, func(mark string) bool { return !has(mark) })
	})
}

// IsStore reports whether a folder is the store of a Flynn; name is relative to the file system.
func IsStore(files fs.FS, name string) bool {
	return isStore(func(mark string) bool {
		_, err := fs.Lstat(files, filepath.ToSlash(filepath.Join(name, mark)))
		return err == nil
	})
}

// maxSearched bounds the entries that are searched for a store below a folder, level by level, for each mount.
const maxSearched = 50_000

// storeAround returns the store that contains a path without links, or that lies below it.
func storeAround(path string) (store string, inside bool) {
	for at := path; ; at = filepath.Dir(at) {
		if IsStore(os.DirFS(at), ".") {
			return at, true
		}
		if at == filepath.Dir(at) {
			break
		}
	}
	folders, seen := []string{path}, 0
	for len(folders) > 0 && seen < maxSearched {
		folder := folders[0]
		folders = folders[1:]
		entries, _ := os.ReadDir(folder) // unreadable entries are not visible in the sandbox either
		seen += len(entries)
		names := map[string]bool{}
		for _, e := range entries {
			names[e.Name()] = true
			if e.IsDir() {
				folders = append(folders, filepath.Join(folder, e.Name()))
			}
		}
		if isStore(func(mark string) bool { return names[mark] }) {
			return folder, false
		}
	}
	return "", false
}
