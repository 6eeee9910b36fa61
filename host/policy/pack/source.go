package pack

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/flynnhost/flynn/host/install/folder"
	"github.com/flynnhost/flynn/host/policy/author"
)

// Bounds of a policy's source.
const (
	maxSources     = 10_000
	maxSourceBytes = 256 << 20
)

// sourceDigest returns a digest of what a module is built from: every file of the folder that is not part of the package, without hidden
// files and those that tools write. It is "" if there is no such file.
func sourceDigest(d *folder.Folder, m author.Manifest) (string, error) {
	h := sha256.New()
	n, left := 0, int64(maxSourceBytes)
	err := fs.WalkDir(d.FS(), ".", func(name string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case name == ".":
			return nil
		case strings.HasPrefix(path.Base(name), ".") || e.IsDir() && slices.Contains([]string{"node_modules", "target", "build", casesDir}, name):
			if e.IsDir() {
				return fs.SkipDir
			}
			return nil
		case !e.Type().IsRegular() || slices.Contains([]string{manifestName, signatureName, m.Build.Output, "README.md", "LICENSE"}, name):
			return nil
		}
		if n++; n > maxSources {
			return fmt.Errorf("the folder has more than %d files", maxSources)
		}
		sum, err := sumFile(d, name, &left)
		fmt.Fprintf(h, "%s  %s\n", sum, name)
		return err
	})
	if err != nil || n == 0 {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

func sumFile(d *folder.Folder, name string, left *int64) (string, error) {
	f, err := d.Open(name)
	if err != nil {
		return "", err
	}
	h := sha256.New()
	n, err := io.Copy(h, io.LimitReader(f, *left+1))
	if *left -= n; err == nil && *left < 0 {
		err = fmt.Errorf("the policy's source has more than %d bytes", maxSourceBytes)
	}
	return hex.EncodeToString(h.Sum(nil)), errors.Join(err, f.Close())
}

var (
	digestLine = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^(digest|source_digest)[ \t]*=`) })
	nameLine   = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^name[ \t]*=`) })
)

// seal writes the digests into the text of a policy.toml and does not change the rest. With replace it replaces present digests; without
// it they stay, right or wrong.
func seal(text []byte, module, source string, replace bool) ([]byte, error) {
	m, err := author.ParseManifest(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", manifestName, err)
	}
	if m.Digest != "" && !replace {
		return text, nil
	}
	added := fmt.Sprintf("digest = %q\n", module)
	if source != "" {
		added += fmt.Sprintf("source_digest = %q\n", source)
	}
	var out bytes.Buffer
	top, placed := true, false
	for line := range bytes.Lines(text) {
		top = top && !bytes.HasPrefix(bytes.TrimSpace(line), []byte("["))
		if top && digestLine().Match(line) {
			continue
		}
		out.Write(line)
		if top && !placed && nameLine().Match(line) && bytes.HasSuffix(line, []byte("\n")) {
			out.WriteString(added)
			placed = true
		}
	}
	sealed := out.Bytes()
	if !placed {
		sealed = append([]byte(added), sealed...)
	}
	// The text may have a form that this code does not handle, such as a line that only looks like a key.
	m2, err := author.ParseManifest(sealed)
	if err != nil || m2.Digest != module || m2.Source != source || m2.Description != m.Description {
		return nil, fmt.Errorf("%s: write digest = %q at its top by hand (%v)", manifestName, module, err)
	}
	return sealed, nil
}
