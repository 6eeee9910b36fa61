// Package firstparty finds the plugins and policies that come with Flynn: in a release, whose folder lib/flynn holds them with a list of their
// digests, or in the sources that the running program was built from, where they are built at their first use and cached.
//
// Start with Find, and then Shelf.Get. The release maker fills lib/flynn and calls WriteManifest. The package decides nothing about what may
// run: packages host/plugin and host/policy/pack do, which also know how one is built (Builder).
package firstparty

import (
	"context"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/flynnhost/flynn/host/install/digest"
	"github.com/flynnhost/flynn/host/install/folder"
)

// Kind is the name of the folder, in a release and in the sources.
type Kind string

// The kinds.
const (
	Plugins  Kind = "plugins"
	Policies Kind = "policies"
)

// one is the word for one of a kind.
func (k Kind) one() string {
	if k == Policies {
		return "policy"
	}
	return "plugin"
}

// manifest is the file in the folder of each that has its name and version.
func (k Kind) manifest() string { return k.one() + ".toml" }

// limits bound the files of one plugin or policy.
var limits = folder.Bounds{Files: 10_000, Bytes: 1 << 30}

// Shelf has the plugins and policies that come with this program. The zero value has none.
type Shelf struct {
	release string // the folder lib/flynn; "" if the program is not from a release
	module  string // the folder with the sources; "" if there are none
	cache   string // the folder for what is built; "" for that of the user
}

// Builder builds plugins or policies.
type Builder interface {
	// Assemble fills the empty folder into with what a release has of the one whose source is in the folder source.
	Assemble(ctx context.Context, source, into string) error
}

// Names returns the names of all of a kind. A release that cannot be read has none; Err says why.
func (s Shelf) Names(k Kind) []string {
	if s.release != "" {
		m, _ := s.manifest()
		return slices.Sorted(maps.Keys(m.of(k)))
	}
	if s.module == "" {
		return nil
	}
	found, err := fs.Glob(os.DirFS(s.module), string(k)+"/*/"+k.manifest())
	if err != nil {
		return nil
	}
	for i, name := range found {
		found[i] = filepath.Base(filepath.Dir(name))
	}
	return found
}

// Err says why a release cannot be read.
func (s Shelf) Err() error {
	if s.release == "" {
		return nil
	}
	_, err := s.manifest()
	return err
}

// Has reports whether there is one of that name.
func (s Shelf) Has(k Kind, name string) bool { return slices.Contains(s.Names(k), name) }

// Dir is the folder of one: with its program or module in a release, and with its source otherwise.
func (s Shelf) Dir(k Kind, name string) string {
	if s.release != "" {
		return filepath.Join(s.release, string(k), name)
	}
	return filepath.Join(s.module, string(k), name)
}

// Origin says where one comes from, for people.
func (s Shelf) Origin(k Kind, name string) string {
	if s.release != "" {
		return "comes with flynn: " + s.Dir(k, name)
	}
	return "comes with flynn, built from " + s.Dir(k, name)
}

// Stamp changes whenever another build of one comes with the program. It is the digest of its folder in a release, and that of its sources
// otherwise.
func (s Shelf) Stamp(k Kind, name string) (string, error) {
	if s.release != "" {
		e, err := s.entry(k, name)
		return e.SHA256, err
	}
	return s.sourceDigest(k, name)
}

// Got is the verified folder of a plugin or policy.
type Got struct {
	Dir    string
	Digest string // of the folder, see Digest
}

// Get returns one of the shelf. In a release its folder must have the digest of the release's list. From the sources it is built, unless that
// was done before.
func (s Shelf) Get(ctx context.Context, log *slog.Logger, k Kind, name string, b Builder) (Got, error) {
	if s.release == "" {
		return s.built(ctx, log, k, name, b)
	}
	e, err := s.entry(k, name)
	if err != nil {
		return Got{}, err
	}
	g := Got{Dir: s.Dir(k, name), Digest: e.SHA256}
	if err := verify(g.Dir, g.Digest); err != nil {
		return Got{}, fmt.Errorf("%s %s in %s is not the one that came with this flynn: %w: install Flynn again", k.one(), name, g.Dir, err)
	}
	return g, nil
}

// Check verifies what can be verified without a build.
func (s Shelf) Check(k Kind, name string) error {
	if s.release == "" {
		return nil
	}
	_, err := s.Get(context.Background(), nil, k, name, nil)
	return err
}

// Digest is the digest of a folder: of the list of the digests of its files, hidden ones left out.
func Digest(dir string) (string, error) {
	d, err := folder.Open(dir, limits)
	if err != nil {
		return "", err
	}
	defer d.Close()
	files, err := d.Digests()
	return DigestOf(files), err
}

// DigestOf is Digest for the files of a folder, by name.
func DigestOf(files map[string]string) string { return digest.Of(folder.Sums(files)) }

func verify(dir, want string) error {
	got, err := Digest(dir)
	if err == nil && got != want {
		err = fmt.Errorf("its digest is %.12s, not %.12s", got, want)
	}
	return err
}
