// Package pack carries policies from who writes them to who runs them: it signs a policy, packs it into one archive, and
// keeps those that are installed in a store that a lock file speaks for.
//
// Start with Package, what a policy's folder or archive holds, and Store. A signature (signature.go) covers what decides: name, version, ABI,
// kinds, limits, module and source. Everything read here is foreign: sizes and numbers are bounded before they are believed, names are checked
// before they become paths. What is installed comes into force only as the lock says it, digest by digest.
package pack

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/semver"

	"github.com/flynnhost/flynn/host/policy/author"
	"github.com/flynnhost/flynn/host/policy/meter"
)

// The files of a package. The module has the name that the manifest gives it.
const (
	manifestName  = "policy.toml"
	signatureName = "policy.sig"
	casesDir      = "cases"
)

// Bounds of a package.
const (
	maxFiles    = 1000
	maxManifest = 64 << 10
	maxText     = 1 << 20 // bytes of any other file but the module
	maxBytes    = meter.MaxModule + 8<<20
)

// Package is a policy as it is passed on: a few files, in memory.
type Package struct {
	Manifest author.Manifest
	Module   []byte
	// Signer is the key of the signature, which is valid; "" is unsigned.
	Signer Key
	files  map[string][]byte // by slash-separated name
}

// Open reads the package in a folder, or in an archive.
func Open(name string) (*Package, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		f, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		p, err := Unpack(f)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		return p, nil
	}
	p, err := fromFolder(name)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return p, nil
}

// fromFolder reads a policy's folder. Digests that are missing are filled in; those that are there have to be right.
func fromFolder(dir string) (*Package, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	c, err := readContents(root, manifestName)
	if err != nil {
		return nil, err
	}
	if c.manifest.Source != "" && c.manifest.Source != c.source {
		return nil, fmt.Errorf("%s has the digest of another source: %s", manifestName, again)
	}
	if err := c.seal(false); err != nil {
		return nil, err
	}
	return newPackage(c.files)
}

// contents are what a package is made of, as they lie in a policy's folder.
type contents struct {
	text     []byte // of the manifest
	manifest author.Manifest
	files    map[string][]byte
	source   string // its digest
}

// readContents reads a policy's folder; manifest is what an error calls that file.
func readContents(root *os.Root, manifest string) (c contents, err error) {
	if c.text, err = readFile(root, manifestName); errors.Is(err, fs.ErrNotExist) {
		return c, fmt.Errorf("%s is missing: is it a policy's folder? flynn policy new NAME makes one", manifest)
	}
	if err != nil {
		return c, err
	}
	if c.manifest, err = author.ParseManifest(c.text); err != nil {
		return c, fmt.Errorf("%s: %w", manifest, err)
	}
	if c.files, err = collect(root, c.manifest); err != nil {
		return c, err
	}
	c.source, err = sourceDigest(root, c.manifest)
	return c, err
}

// seal puts the manifest with the digests among the files.
func (c contents) seal(replace bool) (err error) {
	c.files[manifestName], err = seal(c.text, digestOf(c.files[c.manifest.Build.Output]), c.source, replace)
	return err
}

const again = "build the policy, and run flynn policy sign or remove digest and source_digest"

// collect reads the files that belong to a package.
func collect(root *os.Root, m author.Manifest) (map[string][]byte, error) {
	files := map[string][]byte{}
	var names []string
	for _, pattern := range patterns(m) {
		found, err := fs.Glob(root.FS(), pattern)
		if err != nil {
			return nil, err
		}
		names = append(names, found...)
	}
	for _, name := range names {
		content, err := readFile(root, name)
		if err != nil {
			return nil, err
		}
		files[name] = content
	}
	return files, nil
}

// patterns are those of all files that a package may have.
func patterns(m author.Manifest) []string {
	return []string{manifestName, signatureName, m.Build.Output, casesDir + "/*.toml", casesDir + "/*.golden", "README.md", "LICENSE"}
}

func readFile(root *os.Root, name string) ([]byte, error) {
	f, err := root.Open(filepath.FromSlash(name))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil {
		return nil, err
	} else if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is no regular file", name)
	}
	content, err := io.ReadAll(io.LimitReader(f, maxBytes+1))
	if err == nil {
		err = checkSize(name, int64(len(content)))
	}
	return content, err
}

// newPackage checks files against each other and makes a package of them.
func newPackage(files map[string][]byte) (*Package, error) {
	text, ok := files[manifestName]
	if !ok {
		return nil, fmt.Errorf("it has no %s", manifestName)
	}
	m, err := author.ParseManifest(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", manifestName, err)
	}
	p := &Package{Manifest: m, Module: files[m.Build.Output], files: files}
	if err := p.check(); err != nil {
		return nil, err
	}
	if sig, ok := files[signatureName]; ok {
		if p.Signer, err = p.statement().verify(sig); err != nil {
			return nil, fmt.Errorf("%s: %w", signatureName, err)
		}
	}
	return p, nil
}

func (p *Package) check() error {
	m := p.Manifest
	switch {
	case !exactVersion(m.Version):
		return fmt.Errorf("%s: version = %q: write an exact one like 1.4.0", manifestName, m.Version)
	case path.Ext(m.Build.Output) != ".wasm" || path.Clean(m.Build.Output) != m.Build.Output || strings.ContainsAny(m.Build.Output, "\\:"):
		return fmt.Errorf("%s: build.output = %q: write the path of a .wasm file", manifestName, m.Build.Output)
	case p.Module == nil:
		return fmt.Errorf("it has no module %s: run flynn policy build", m.Build.Output)
	case !isDigest(m.Digest):
		return fmt.Errorf("%s: digest = %q is no SHA-256: run flynn policy pack", manifestName, m.Digest)
	case m.Digest != digestOf(p.Module):
		return fmt.Errorf("%s has the digest of another module: %s", manifestName, again)
	case m.Source != "" && !isDigest(m.Source):
		return fmt.Errorf("%s: source_digest = %q is no SHA-256", manifestName, m.Source)
	}
	total := 0
	for name, content := range p.files {
		if !p.allows(name) {
			return fmt.Errorf("%q has no place in a policy's package", name)
		}
		total += len(content)
	}
	if len(p.files) > maxFiles || total > maxBytes {
		return fmt.Errorf("it has %d files and %d bytes, at most %d and %d", len(p.files), total, maxFiles, maxBytes)
	}
	return nil
}

// allows reports whether a file of that name may be in the package.
func (p *Package) allows(name string) bool {
	return localName(name) && slices.ContainsFunc(patterns(p.Manifest), func(pattern string) bool {
		if pattern == p.Manifest.Build.Output {
			return name == pattern
		}
		ok, err := path.Match(pattern, name)
		return ok && err == nil
	})
}

// digests are those of all files.
func (p *Package) digests() map[string]string {
	sums := map[string]string{}
	for name, content := range p.files {
		sums[name] = digestOf(content)
	}
	return sums
}

// names are those of all files, in order.
func (p *Package) names() []string { return slices.Sorted(maps.Keys(p.files)) }

func checkSize(name string, n int64) error {
	most := int64(maxText)
	switch {
	case name == manifestName || name == signatureName:
		most = maxManifest
	case path.Ext(name) == ".wasm":
		most = meter.MaxModule
	}
	if n > most {
		return fmt.Errorf("%s has more than %d bytes", name, most)
	}
	return nil
}

// localName reports whether name is a clean relative path that stays inside, on every system.
func localName(name string) bool {
	return name != "" && name != "." && len(name) <= 256 && path.Clean(name) == name && fs.ValidPath(name) &&
		!strings.ContainsAny(name, "\\:\x00") && filepath.IsLocal(name)
}

func digestOf(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

func isDigest(s string) bool {
	raw, err := hex.DecodeString(s)
	return err == nil && len(raw) == sha256.Size && strings.ToLower(s) == s
}

func exactVersion(v string) bool {
	return semver.IsValid("v"+v) && semver.Canonical("v"+v) == "v"+v
}
