package plugin

import (
	"bytes"
	"crypto/ed25519"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/flynnhost/flynn/host/install/signing"
	"github.com/flynnhost/flynn/host/internal/durable"
)

// The files of a signed release. The checksum file is that of sha256sum, so that anybody can check it without Flynn.
const (
	sumsName      = "plugin.sums"
	signatureName = "plugin.sig"
)

// signaturePrefix keeps a signature from being one of anything else. Name and version are covered by way of plugin.toml.
const signaturePrefix = "flynn plugin signature 1\n"

// sums is the one checksum file of a release, as sha256sum writes it: itself and the signature are left out.
func sums(files map[string]string) []byte {
	var out bytes.Buffer
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if name != sumsName && name != signatureName {
			fmt.Fprintf(&out, "%s  %s\n", files[name], name)
		}
	}
	return out.Bytes()
}

// vouched returns the key that vouches for the files in dir, whose digests are given; "" where there is no signature that counts.
func vouched(dir string, files map[string]string, trust signing.Trust) (signing.Key, error) {
	signer, err := signerOf(dir, files)
	if err != nil {
		return "", err
	}
	return trust.Check(signer)
}

// signerOf is the key of the signature in dir, which has to be right where there is one.
func signerOf(dir string, files map[string]string) (signing.Key, error) {
	if files[signatureName] == "" {
		return "", nil
	}
	want := signing.Digest(sums(files))
	if files[sumsName] != want {
		return "", fmt.Errorf("%s does not have the digests of exactly these files: run flynn plugin sign again", sumsName)
	}
	text, err := readSmall(filepath.Join(dir, signatureName), signing.MaxText)
	if err != nil {
		return "", err
	}
	key, err := signing.Verify(text, append([]byte(signaturePrefix), sums(files)...))
	if err != nil {
		return "", fmt.Errorf("%s: %w", signatureName, err)
	}
	return key, nil
}

func readSmall(name string, most int64) ([]byte, error) {
	info, err := os.Stat(name)
	if err == nil && info.Size() > most {
		err = fmt.Errorf("%s has more than %d bytes", filepath.Base(name), most)
	}
	if err != nil {
		return nil, err
	}
	return os.ReadFile(name)
}

// Sign writes the checksum file of the plugin in dir, and a signature of it.
func Sign(dir string, private ed25519.PrivateKey) (Manifest, error) {
	m, files, err := survey(dir)
	if err != nil {
		return m, fmt.Errorf("sign %s: %w", dir, err)
	}
	text := sums(files)
	signature := signing.Sign(private, append([]byte(signaturePrefix), text...))
	for name, content := range map[string][]byte{sumsName: text, signatureName: signature} {
		if err := durable.WriteFile(filepath.Join(dir, name), content, 0o644); err != nil {
			return m, fmt.Errorf("sign %s: %w", dir, err)
		}
	}
	return m, nil
}

// survey reads the manifest and digests every file of the plugin in dir that would be installed.
func survey(dir string) (Manifest, map[string]string, error) {
	t, err := openTree(dir)
	if err != nil {
		return Manifest{}, nil, err
	}
	defer t.close()
	m, err := t.manifest()
	if err != nil {
		return m, nil, err
	}
	names, err := t.files(true)
	if err != nil {
		return m, nil, err
	}
	files := make(map[string]string, len(names))
	for _, name := range names {
		if files[name], err = t.digest(name); err != nil {
			return m, nil, err
		}
	}
	if err := t.everyProgram(m); err != nil {
		return m, nil, err
	}
	return m, files, nil
}

// everyProgram checks that the program of each platform is there: what is handed on has to be whole.
func (t *tree) everyProgram(m Manifest) error {
	for _, platform := range slices.Sorted(maps.Keys(m.Exec)) {
		program, ok := m.Exec[platform].file()
		if !ok {
			continue
		}
		if _, err := t.root.Lstat(filepath.FromSlash(program)); err != nil {
			return fmt.Errorf("exec.%s: %w: build it, or take the platform out of %s", platform, err, ManifestName)
		}
	}
	return nil
}

// modeOf is the mode that a file of a plugin has in an archive: programs can be run, nothing else matters.
func modeOf(mode fs.FileMode) int64 {
	if mode&0o100 != 0 {
		return 0o755
	}
	return 0o644
}
