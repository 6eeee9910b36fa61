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

// Bundle is a set of certificates that programs need to reach the hosts of some credentials.
type Bundle struct {
	Authority *egress.Authority
	Folder    string
	// whole is set if the bundle suffices for everything on the allowlist.
	whole bool
}

const (
	ownFile    = "proxy.pem"  // the authority's certificate only
	bundleFile = "bundle.pem" // together with all other trusted ones
)

// write writes the certificates. Programs replace their own list by the file, so it includes the host's list if hosts without a credential
// may be reached as well; the image's list cannot be read here.
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
			return nil // only programs that take an additional certificate will work
		}
		all = slices.Concat(public, own)
	}
	b.whole = true
	return durable.WriteFile(filepath.Join(b.Folder, bundleFile), all, 0o644)
}

// publicBundles returns the paths of the trusted certificates in various distributions.
func publicBundles() []string {
	return []string{
		"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem",
		"/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", "/etc/ssl/cert.pem",
	}
}

// publicBundle reads the host's trusted certificates.
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

// Env returns the variables by which programs find the files, if the folder is mounted at that path. Node adds the certificate to its own
// list; other programs replace theirs.
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
