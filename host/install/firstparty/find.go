package firstparty

import (
	"os"
	"path/filepath"
	"strings"
)

// Find returns what comes with the running program.
func Find() Shelf {
	exe, err := os.Executable()
	if err != nil {
		return Shelf{}
	}
	if real, err := filepath.EvalSymlinks(exe); err == nil {
		exe = real
	}
	if lib := releaseOf(exe); lib != "" {
		return Shelf{release: lib}
	}
	return Shelf{module: moduleOf(exe)}
}

// FromRelease returns what lies in dir, the folder lib/flynn of a release.
func FromRelease(dir string) Shelf { return Shelf{release: dir} }

// FromSource returns what the sources in the folder module have. Builds go into the folder cache.
func FromSource(module, cache string) Shelf { return Shelf{module: module, cache: cache} }

// releaseOf returns the folder lib/flynn of the release that a program belongs to; "" if there is none.
func releaseOf(exe string) string {
	bin := filepath.Dir(exe)
	for _, lib := range []string{filepath.Join(bin, "..", "lib", "flynn"), filepath.Join(bin, "lib", "flynn")} {
		if _, err := os.Stat(filepath.Join(lib, ManifestName)); err == nil {
			return lib
		}
	}
	return ""
}

// moduleOf returns the folder of the sources from which a program was built; "" if they are not on this machine. Others than these must not
// be built, because their author could then run programs here. So the working folder counts only for a program that the go command
// has just built and keeps for itself.
func moduleOf(exe string) string {
	if module := moduleAbove(filepath.Dir(exe)); module != "" {
		return module
	}
	if temporary(exe) {
		if here, err := os.Getwd(); err == nil {
			return moduleAbove(here)
		}
	}
	return ""
}

// temporary reports whether the go command keeps a program only for itself, as go run and go test do.
func temporary(exe string) bool {
	for _, dir := range []string{os.Getenv("GOCACHE"), os.Getenv("GOTMPDIR")} {
		if dir != "" && strings.HasPrefix(exe, filepath.Clean(dir)+string(filepath.Separator)) {
			return true
		}
	}
	return strings.Contains(exe, string(filepath.Separator)+"go-build")
}

// moduleAbove returns the folder of the module that a folder belongs to; "" if it is another module.
func moduleAbove(dir string) string {
	if !filepath.IsAbs(dir) {
		return ""
	}
	for ; ; dir = filepath.Dir(dir) {
		mod, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		switch {
		case err == nil && strings.HasPrefix(string(mod), "module github.com/flynnhost/flynn\n"):
			return dir
		case err == nil || dir == filepath.Dir(dir):
			return ""
		}
	}
}
