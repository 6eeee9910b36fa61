package proxyca

import (
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/flynnhost/flynn/host/internal/durable"
	"github.com/flynnhost/flynn/host/sandbox/egress"
)

// Bundle is what programs need to reach the hosts of some credentials.
type Bundle struct {
	Authority *egress.Authority
	Folder    string
	// whole says that the bundle is enough to reach everything on the allowlist.
	whole bool
}

const (
	ownFile    = "proxy.pem"  // the authority alone
	bundleFile = "bundle.pem" // with all others that are trusted
)

// write puts the certificates into the folder. Programs take one file in place of their own list, so where hosts without a
// credential may be reached as well, it has the host's list in it; the image's cannot be read from here.
func (b *Bundle) write(alone bool) error {
	if err := os.MkdirAll(b.Folder, 0o755); err != nil {
		return err
	}
	own := b.Authority.PEM()
	if err := durable.WriteFile(filepath.Join(b.Folder, ownFile), own, 0o644); err != nil {
		return err
	}
	all := own
	if !alone {
		public, err := publicBundle()
		if err != nil {
			return nil // programs that take an extra certificate work; for the others nothing is named
		}
		all = slices.Concat(public, own)
	}
	b.whole = true
	return durable.WriteFile(filepath.Join(b.Folder, bundleFile), all, 0o644)
}

// publicBundles are where distributions keep the certificates that they trust.
func publicBundles() []string {
	return []string{
		"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem",
		"/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", "/etc/ssl/cert.pem",
	}
}

// publicBundle reads the host's list.
func publicBundle() ([]byte, error) {
	for _, path := range publicBundles() {
		text, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if !x509.NewCertPool().AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("%s has no certificates", path)
		}
		if !strings.HasSuffix(string(text), "\n") {
			text = append(text, '\n')
		}
		return text, nil
	}
	return nil, fs.ErrNotExist
}

// Env names the files in the ways that programs look for them, where the folder is mounted at that path. Node adds one to its
// own list; of the others each takes it in place of its own.
func (b *Bundle) Env(at string) []string {
	env := []string{"NODE_EXTRA_CA_CERTS=" + at + "/" + ownFile}
	if !b.whole {
		return env
	}
	for _, name := range []string{"SSL_CERT_FILE", "CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "GIT_SSL_CAINFO", "CARGO_HTTP_CAINFO", "PIP_CERT"} {
		env = append(env, name+"="+at+"/"+bundleFile)
	}
	return env
}
