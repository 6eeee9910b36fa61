package author

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"
)

// SourceFile is a text file of a policy's folder.
type SourceFile struct {
	Name string `json:"name"` // in the folder, with slashes
	Text string `json:"text"`
	Cut  bool   `json:"cut,omitempty"` // the file is longer
}

// Bounds of SourceOf.
const (
	maxSourceFiles = 64
	maxSourceText  = 64 << 10 // of a file, in bytes
)

// ErrNoSource is the error for a module that does not lie in the folder of a policy.
var ErrNoSource = errors.New("the source of this policy is not at hand: its module does not lie in a folder with the policy.toml that names it")

// FolderOf returns the folder of a policy with its policy.toml, if path is the module of one; otherwise the error is ErrNoSource.
func FolderOf(path string) (string, Manifest, error) {
	dir := filepath.Dir(path)
	if _, err := os.Lstat(filepath.Join(dir, manifestFile)); errors.Is(err, fs.ErrNotExist) {
		return "", Manifest{}, ErrNoSource
	}
	m, err := LoadManifest(dir)
	if err == nil && m.modulePath(dir) != filepath.Clean(path) {
		err = ErrNoSource
	}
	return dir, m, err
}

// SourceOf returns the text files of the folder of a module and of its cases, in the order of their names, policy.toml first. Hidden files,
// links and files that are no text are left out. The error is ErrNoSource if path is not the module of a policy's folder.
func SourceOf(path string) ([]SourceFile, error) {
	dir, _, err := FolderOf(path)
	if err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	var files []SourceFile
	for _, sub := range []string{".", casesDir} {
		some, err := textsIn(root, sub, maxSourceFiles-len(files))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		files = append(files, some...)
	}
	if i := slices.IndexFunc(files, func(f SourceFile) bool { return f.Name == manifestFile }); i > 0 {
		files = slices.Concat(files[i:i+1], files[:i], files[i+1:])
	}
	return files, nil
}

// textsIn reads the text files in one folder, at most n of them.
func textsIn(root *os.Root, dir string, n int) ([]SourceFile, error) {
	entries, err := fs.ReadDir(root.FS(), dir)
	if err != nil {
		return nil, err
	}
	var files []SourceFile
	for _, e := range entries {
		if len(files) == n {
			break
		}
		if !e.Type().IsRegular() || strings.HasPrefix(e.Name(), ".") {
			continue
		}
		name := path.Join(dir, e.Name())
		text, cut, err := readText(root, name)
		if err != nil {
			return nil, err
		}
		if utf8.ValidString(text) && !strings.ContainsRune(text, 0) {
			files = append(files, SourceFile{name, text, cut})
		}
	}
	return files, nil
}

func readText(root *os.Root, name string) (text string, cut bool, err error) {
	f, err := root.Open(name)
	if err != nil {
		return "", false, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxSourceText+1))
	if len(data) > maxSourceText {
		data, cut = data[:maxSourceText], true
		for len(data) > 0 && !utf8.RuneStart(data[len(data)-1]) {
			data = data[:len(data)-1]
		}
		data = data[:len(data)-1] // the letter at the end may not be whole
	}
	return string(data), cut, err
}
