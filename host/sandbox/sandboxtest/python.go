package sandboxtest

import (
	"archive/tar"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/flynnhost/flynn/sdk/need"
)

// Python returns an image with busybox and the machine's own Python 3, from Debian's package python3. It is imported once per engine. If
// there is none the test is skipped or fails; see need.Part.
func (h Host) Python(t testing.TB) string {
	t.Helper()
	p, err := findPython()
	need.Part(t, "python", err)
	tag, err := p.tag()
	if err != nil {
		t.Fatal(err)
	}
	if err := importImage(t.Context(), h.API, tag, func() io.Reader { return root(p.add) }); err != nil {
		t.Fatalf("make python image: %v", err)
	}
	return tag
}

// python is an interpreter and the files that it needs, by absolute path.
type python struct {
	Version, Program, Library string
}

// findPython prefers the system's interpreter to others in PATH.
func findPython() (python, error) {
	const ask = `import sys, sysconfig, os, json
print(json.dumps({"Version": sys.version, "Program": os.path.realpath(sys.executable), "Library": sysconfig.get_path("stdlib")}))`
	var p python
	var all error
	for _, name := range []string{"/usr/bin/python3", "python3"} {
		out, err := exec.Command(name, "-I", "-c", ask).Output()
		if err == nil {
			err = json.Unmarshal(out, &p)
		}
		if err == nil {
			return p, nil
		}
		all = errors.Join(all, err)
	}
	return p, fmt.Errorf("%w: install python3", all)
}

// pythonLayout changes whenever root changes the image.
const pythonLayout = "1"

// tag returns the image's name, which depends on its content.
func (p python) tag() (string, error) {
	info, err := os.Stat(p.Program)
	if err != nil {
		return "", err
	}
	return "flynn-test/python:" + digest(pythonLayout, p, info.Size(), info.ModTime().UnixNano()), nil
}

func (p python) add(w *tar.Writer) error {
	add(w, tar.Header{Typeflag: tar.TypeSymlink, Name: "usr/bin/python3", Linkname: p.Program, Mode: 0o777}, nil)
	programs := []string{p.Program}
	err := filepath.WalkDir(p.Library, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && slices.Contains(unneeded(), d.Name()) {
			return fs.SkipDir
		}
		if d.Type().IsRegular() && !strings.HasPrefix(d.Name(), "libpython") {
			if strings.HasSuffix(name, ".so") {
				programs = append(programs, name)
				return nil
			}
			return addFile(w, name, name)
		}
		return nil
	})
	if err == nil {
		err = addLinked(w, programs...)
	}
	for _, name := range programs {
		err = errors.Join(err, addFile(w, name, name))
	}
	return err
}

// unneeded returns the folders of the library that no test program imports; they are most of its size.
func unneeded() []string {
	return []string{"test", "tests", "idlelib", "tkinter", "ensurepip", "lib2to3", "pydoc_data", "site-packages", "dist-packages", "distutils", "turtledemo"}
}

// linked returns the shared libraries of programs, and their loader; see ldd(1).
func linked(programs []string) ([]string, error) {
	out, err := exec.Command("ldd", programs...).Output()
	if err != nil {
		return nil, fmt.Errorf("ask what python is linked with: %w", err)
	}
	var found []string
	for line := range strings.Lines(string(out)) {
		for _, word := range strings.Fields(line) {
			if path.IsAbs(word) && !strings.HasSuffix(word, ":") && !slices.Contains(found, word) {
				found = append(found, word)
			}
		}
	}
	return found, nil
}

// addLinked copies the libraries of programs.
func addLinked(w *tar.Writer, programs ...string) error {
	libraries, err := linked(programs)
	for _, name := range libraries {
		err = errors.Join(err, addFile(w, name, name))
	}
	return err
}

// addFile copies a file, following links.
func addFile(w *tar.Writer, source, name string) error {
	content, err := os.ReadFile(source)
	if err != nil {
		return err
	}
	info, err := os.Stat(source)
	if err != nil {
		return err
	}
	// Compiled files are checked against the modification time of their source.
	add(w, tar.Header{Typeflag: tar.TypeReg, Name: strings.TrimPrefix(name, "/"), Mode: int64(info.Mode().Perm()), ModTime: info.ModTime()}, content)
	return nil
}
