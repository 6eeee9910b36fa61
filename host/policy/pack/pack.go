// Package pack distributes policies: it signs a policy, packs it into one archive, and keeps installed policies in a store with a lock file.
//
// Start with Package, the contents of a policy's folder or archive, and Store. A signature (signature.go) covers everything that decides: name,
// version, ABI, kinds, limits, module and source. Everything read here is untrusted: sizes and numbers are bounded, and names are checked
// before they become paths. An installed policy comes into force only if every file has the digest in the lock.
package pack

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/mod/semver"

	"github.com/flynnhost/flynn/host/install/digest"
	"github.com/flynnhost/flynn/host/install/folder"
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
	maxManifest = 64 << 10
	maxText     = 1 << 20 // bytes of any other file but the module
)

// bounds limit the files of a package, and the archive that it comes in.
var bounds = folder.Bounds{Files: 1000, Bytes: meter.MaxModule + 8<<20}

// Package is a policy for distribution: a few files, in memory.
type Package struct {
	Manifest author.Manifest
	Module   []byte
	// Signer is the key of the valid signature; "" is unsigned.
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

// fromFolder reads a policy's folder. Missing digests are filled in; present ones have to be right.
func fromFolder(dir string) (*Package, error) {
	d, err := folder.Open(dir, bounds)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	c, err := readContents(d, manifestName)
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

// contents are the parts of a package in a policy's folder.
type contents struct {
	text     []byte // of the manifest
	manifest author.Manifest
	files    map[string][]byte
	source   string // its digest
}

// readContents reads a policy's folder; manifest is what an error calls that file.
func readContents(d *folder.Folder, manifest string) (c contents, err error) {
	if c.text, err = d.Read(manifestName, maxManifest); errors.Is(err, fs.ErrNotExist) {
		return c, fmt.Errorf("%s is missing: is it a policy's folder? flynn policy dev new NAME makes one", manifest)
	}
	if err != nil {
		return c, err
	}
	if c.manifest, err = author.ParseManifest(c.text); err != nil {
		return c, fmt.Errorf("%s: %w", manifest, err)
	}
	if c.files, err = collect(d, c.manifest); err != nil {
		return c, err
	}
	c.source, err = sourceDigest(d, c.manifest)
	return c, err
}

// seal adds the manifest with the digests to the files.
func (c contents) seal(replace bool) (err error) {
	c.files[manifestName], err = seal(c.text, digest.Of(c.files[c.manifest.Build.Output]), c.source, replace)
	return err
}

const again = "build the policy, and run flynn policy dev sign or remove digest and source_digest"

// collect reads the files that belong to a package.
func collect(d *folder.Folder, m author.Manifest) (map[string][]byte, error) {
	files := map[string][]byte{}
	var names []string
	for _, pattern := range patterns(m) {
		found, err := fs.Glob(d.FS(), pattern)
		if err != nil {
			return nil, err
		}
		names = append(names, found...)
	}
	for _, name := range names {
		content, err := d.Read(name, maxSize(name))
		if err != nil {
			return nil, err
		}
		files[name] = content
	}
	return files, nil
}

// patterns returns the patterns of the files that a package may have.
func patterns(m author.Manifest) []string {
	return []string{manifestName, signatureName, m.Build.Output, casesDir + "/*.toml", casesDir + "/*.golden", "README.md", "LICENSE"}
}

// newPackage makes a package of files, and checks that they agree.
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
		return fmt.Errorf("it has no module %s: run flynn policy dev build", m.Build.Output)
	case !digest.Valid(m.Digest):
		return fmt.Errorf("%s: digest = %q is not a SHA-256: run flynn policy dev pack", manifestName, m.Digest)
	case m.Digest != digest.Of(p.Module):
		return fmt.Errorf("%s has the digest of another module: %s", manifestName, again)
	case m.Source != "" && !digest.Valid(m.Source):
		return fmt.Errorf("%s: source_digest = %q is not a SHA-256", manifestName, m.Source)
	}
	total := 0
	for name, content := range p.files {
		if !p.allows(name) {
			return fmt.Errorf("%q is not allowed in a policy's package", name)
		}
		total += len(content)
	}
	if len(p.files) > bounds.Files || int64(total) > bounds.Bytes {
		return fmt.Errorf("it has %d files and %d bytes, at most %d and %d", len(p.files), total, bounds.Files, bounds.Bytes)
	}
	return nil
}

// allows reports whether a file of that name may be in the package.
func (p *Package) allows(name string) bool {
	return folder.Portable(name) && slices.ContainsFunc(patterns(p.Manifest), func(pattern string) bool {
		if pattern == p.Manifest.Build.Output {
			return name == pattern
		}
		ok, err := path.Match(pattern, name)
		return ok && err == nil
	})
}

// names returns the names of all files, in order.
func (p *Package) names() []string { return slices.Sorted(maps.Keys(p.files)) }

// maxSize returns the maximum size of a file of that name.
func maxSize(name string) int64 {
	switch {
	case name == manifestName || name == signatureName:
		return maxManifest
	case path.Ext(name) == ".wasm":
		return meter.MaxModule
	}
	return maxText
}

func exactVersion(v string) bool {
	return semver.IsValid("v"+v) && semver.Canonical("v"+v) == "v"+v
}
