package plugin

import (
	"crypto/ed25519"
	"fmt"
	"io"
	"maps"
	"path/filepath"

	"github.com/flynnhost/flynn/host/install/archive"
	"github.com/flynnhost/flynn/host/install/digest"
	"github.com/flynnhost/flynn/host/install/folder"
	"github.com/flynnhost/flynn/host/install/signing"
	"github.com/flynnhost/flynn/host/internal/durable"
)

// The files of a signed release. The checksum file has the format of sha256sum, so that anybody can check it without Flynn.
const (
	sumsName      = "plugin.sums"
	signatureName = "plugin.sig"
)

// signaturePrefix keeps a signature from being valid for anything else. It covers name and version through plugin.toml.
const signaturePrefix = "flynn plugin signature 1\n"

// sums is the content of the checksum file of a release, which leaves itself and the signature out.
func sums(files map[string]string) []byte {
	files = maps.Clone(files)
	delete(files, sumsName)
	delete(files, signatureName)
	return folder.Sums(files)
}

// signer is the key of the signature, which must be valid; "" if there is none.
func (t *tree) signer(files map[string]string) (signing.Key, error) {
	if files[signatureName] == "" {
		return "", nil
	}
	text := sums(files)
	if files[sumsName] != digest.Of(text) {
		return "", fmt.Errorf("%s does not have the digests of exactly these files: run flynn plugin dev sign again", sumsName)
	}
	signature, err := t.Read(signatureName, signing.MaxText)
	if err != nil {
		return "", err
	}
	key, err := signing.Verify(signature, append([]byte(signaturePrefix), text...))
	if err != nil {
		return "", fmt.Errorf("%s: %w", signatureName, err)
	}
	return key, nil
}

// Sign writes the checksum file of the plugin in dir, and a signature of it.
func Sign(dir string, private ed25519.PrivateKey) (Manifest, error) {
	t, m, files, err := survey(dir)
	if err != nil {
		return m, fmt.Errorf("sign %s: %w", dir, err)
	}
	t.Close()
	text := sums(files)
	signature := signing.Sign(private, append([]byte(signaturePrefix), text...))
	for name, content := range map[string][]byte{sumsName: text, signatureName: signature} {
		if err := durable.WriteFile(filepath.Join(dir, name), content, 0o644); err != nil {
			return m, fmt.Errorf("sign %s: %w", dir, err)
		}
	}
	return m, nil
}

// Pack writes the plugin in dir as a .tar.gz archive with the programs of all platforms. The same files give the same bytes.
func Pack(dir string, w io.Writer) (Manifest, error) {
	t, m, files, err := survey(dir)
	if err != nil {
		return m, fmt.Errorf("pack %s: %w", dir, err)
	}
	defer t.Close()
	if _, err := t.signer(files); err != nil {
		return m, fmt.Errorf("pack %s: %w", dir, err)
	}
	out := archive.NewWriter(w)
	if err = out.Pack(t.Folder); err == nil {
		err = out.Close()
	}
	return m, err
}

// survey opens the plugin in dir, which must be complete, and digests every file that would be installed.
func survey(dir string) (*tree, Manifest, map[string]string, error) {
	t, err := openTree(dir, AllKinds())
	if err != nil {
		return nil, Manifest{}, nil, err
	}
	m, err := t.manifest()
	if err == nil {
		err = t.everyProgram(m)
	}
	var files map[string]string
	if err == nil {
		files, err = t.Digests()
	}
	if err != nil {
		t.Close()
		return nil, m, nil, err
	}
	return t, m, files, nil
}
