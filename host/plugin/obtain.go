package plugin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/flynnhost/flynn/host/install/signing"
)

// Obtain says how a plugin that is not a folder is brought here.
type Obtain struct {
	Options
	// Private allows a URL to lead to an address that is not public: this machine, or the network that it is in.
	Private bool
	// Transport replaces the usual one, for tests.
	Transport http.RoundTripper
}

// InstallFrom installs a plugin from a folder, a .tar.gz or .zip archive, or an http or https URL of such an archive. A URL needs
// something that vouches for what comes: #sha256=DIGEST at its end, or a signature by a pinned key inside.
func (s *Store) InstallFrom(ctx context.Context, from string, o Obtain) (Installed, error) {
	info, err := os.Stat(from)
	switch {
	case IsURL(from):
		return s.installURL(ctx, from, o)
	case err != nil:
		return Installed{}, fmt.Errorf("install %s: %w", from, err)
	case info.IsDir():
		return s.InstallFolder(from, o.Options)
	}
	from, err = filepath.Abs(from)
	if err != nil {
		return Installed{}, err
	}
	f, err := os.Open(from)
	if err != nil {
		return Installed{}, fmt.Errorf("install %s: %w", from, err)
	}
	defer f.Close()
	o.Source = from
	return s.installArchive(f, o.Options)
}

// IsURL tells a URL from a path.
func IsURL(name string) bool { return strings.Contains(name, "://") }

func (s *Store) installURL(ctx context.Context, from string, o Obtain) (Installed, error) {
	u, digest, err := parseSource(from)
	if err != nil {
		return Installed{}, fmt.Errorf("install %.200s: %w", from, err)
	}
	o.Source = u.String()
	if digest == "" {
		if len(o.Trust.Keys) == 0 {
			return Installed{}, fmt.Errorf("install %s: nothing vouches for what comes from there: add #sha256=DIGEST, or pin the author's key in [plugin_trust]", u)
		}
		o.Trust.Required = true
	}
	f, err := os.CreateTemp(s.path("store"), ".fetched-")
	if err != nil {
		return Installed{}, err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	got, err := download(ctx, u, f, o)
	if err == nil && digest != "" && got != digest {
		err = fmt.Errorf("what came has the digest %s", got)
	}
	if err != nil {
		return Installed{}, fmt.Errorf("install %s: %w", u, err)
	}
	return s.installArchive(f, o.Options)
}

// parseSource reads a URL and the digest at its end.
func parseSource(from string) (u *url.URL, digest string, err error) {
	u, err = url.Parse(from)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil {
		return nil, "", errors.New("want an http or https URL without a password")
	}
	fragment := u.Fragment
	u.Fragment, u.RawFragment = "", ""
	if fragment == "" {
		return u, "", nil
	}
	digest, ok := strings.CutPrefix(fragment, "sha256=")
	if digest = strings.ToLower(digest); !ok || !isDigest(digest) {
		return nil, "", fmt.Errorf("#%.80s: want #sha256= and 64 digits", fragment)
	}
	return u, digest, nil
}

// installArchive unpacks an archive beside the store and installs what is in it, at its top or in its only folder.
func (s *Store) installArchive(f *os.File, o Options) (Installed, error) {
	dir, err := os.MkdirTemp(s.path("store"), ".unpacked-")
	if err != nil {
		return Installed{}, err
	}
	defer removeReadOnly(dir)
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return Installed{}, err
	}
	if err := unpack(f, dir); err != nil {
		return Installed{}, fmt.Errorf("install %s: %w", o.Source, err)
	}
	return s.InstallFolder(pluginIn(dir), o)
}

// pluginIn is the folder of an unpacked archive that holds the plugin: many archives have everything in one folder.
func pluginIn(dir string) string {
	if _, err := os.Lstat(filepath.Join(dir, ManifestName)); err == nil {
		return dir
	}
	entries, err := os.ReadDir(dir)
	if err == nil && len(entries) == 1 && entries[0].IsDir() {
		return filepath.Join(dir, entries[0].Name())
	}
	return dir
}

func isDigest(s string) bool {
	return len(s) == len(signing.Digest(nil)) && strings.Trim(s, "0123456789abcdef") == ""
}
