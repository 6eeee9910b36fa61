package pack

import (
	"bytes"
	"compress/gzip"
	"io"
	"maps"
	"testing"

	hash "github.com/flynnhost/flynn/host/install/digest"
	"github.com/flynnhost/flynn/host/install/folder"
)

// FuzzUnpack holds that what an archive yields is a package within its bounds that packs to the same files. It is given the
// tar in an archive, for a checksum would keep everything else out.
func FuzzUnpack(f *testing.F) {
	dir, _ := signed(f, "1.0.0", 1)
	for _, archive := range [][]byte{
		packed(f, dir), packed(f, folderOf(f, "2.0.0-rc.1", 2)), archiveOf(f, map[string]string{"../policy.toml": manifest}), archiveOf(f, nil),
	} {
		zip := must[*gzip.Reader](f)(gzip.NewReader(bytes.NewReader(archive)))
		f.Add(must[[]byte](f)(io.ReadAll(zip)))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var archive bytes.Buffer
		zip := must[*gzip.Writer](t)(gzip.NewWriterLevel(&archive, gzip.NoCompression))
		if _, err := zip.Write(text); err != nil {
			t.Fatal(err)
		}
		if err := zip.Close(); err != nil {
			t.Fatal(err)
		}
		p, err := Unpack(bytes.NewReader(archive.Bytes()))
		if err != nil {
			return
		}
		for name := range p.files {
			if !folder.Inside(name) {
				t.Errorf("a file is called %q", name)
			}
		}
		var out bytes.Buffer
		if err := p.Pack(&out); err != nil {
			t.Fatal(err)
		}
		again, err := Unpack(bytes.NewReader(out.Bytes()))
		if err != nil || !maps.EqualFunc(p.files, again.files, bytes.Equal) {
			t.Errorf("packed again it is other files (%v)", err)
		}
	})
}

// FuzzSeal holds that sealing a manifest changes its digests and nothing else, or fails.
func FuzzSeal(f *testing.F) {
	f.Add([]byte(manifest))
	f.Add([]byte("name = \"p\""))
	f.Add([]byte("digest = \"x\"\n[data]\ndigest = \"\"\"\nname = \"\"\""))
	f.Add([]byte("abi = \"flynn 1\"\nkinds = [\"tool\"]\nlanguage = \"wasm\"\ndescription = \"\"\"\nname = \ndigest = 1\n\"\"\"\nname = \"p\""))
	sum := hash.Of(nil)
	f.Fuzz(func(t *testing.T, text []byte) {
		sealed, err := seal(text, sum, sum, true)
		if err != nil {
			return
		}
		again, err := seal(sealed, sum, sum, true)
		if err != nil || !bytes.Equal(again, sealed) {
			t.Errorf("sealed again it is %q, was %q (%v)", again, sealed, err)
		}
	})
}

// FuzzLock holds that a lock that is taken names nothing outside of its folder, and is written as it is read.
func FuzzLock(f *testing.F) {
	f.Add([]byte("lock = 1\n"))
	sum := hash.Of(nil)
	f.Add([]byte("lock = 1\n[[policy]]\nname = \"p\"\nversion = \"1.0.0\"\nkinds = [\"tool\"]\ndigest = \"" + sum + "\"\nfrom = \"/p\"\nmodule = \"p.wasm\"\n" +
		"[policy.files]\n\"p.wasm\" = \"" + sum + "\"\n\"policy.toml\" = \"" + sum + "\"\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		l, err := parseLock(text)
		if err != nil {
			return
		}
		for _, p := range l.Policies {
			for name := range p.Files {
				if !folder.Inside(name) || !folder.Inside(p.folder()) {
					t.Errorf("%q of %q leads outside", name, p.folder())
				}
			}
		}
		again, err := l.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := parseLock(again); err != nil {
			t.Errorf("written it cannot be read: %v", err)
		}
	})
}
