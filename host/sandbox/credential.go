package sandbox

import (
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/flynnhost/flynn/host/netaddr"
	"github.com/flynnhost/flynn/host/sandbox/egress"
)

// Credential is a secret that requests to a host are given on their way through the proxy; see egress.Credential. It is
// only named here: Config.Secret knows it.
type Credential struct {
	Host           string // one of the allowlist, with at most one port
	Header, Prefix string
	Secret         string
	Methods, Paths []string
	Upgrade        bool
}

// parse reads a credential and checks that the allowlist lets its host be reached.
func (c Credential) parse(rules netaddr.Rules, secret func(string) string) (egress.Credential, error) {
	rule, err := egress.ParseCredential(c.Host)
	if err != nil {
		return egress.Credential{}, fmt.Errorf("credential for %q: %w", c.Host, err)
	}
	parsed := egress.Credential{
		Rule: rule, Header: c.Header, Prefix: c.Prefix, Methods: c.Methods, Paths: c.Paths, Upgrade: c.Upgrade,
		Value: func() string {
			if secret == nil {
				return ""
			}
			return secret(c.Secret)
		},
	}
	if err := parsed.Check(); err != nil {
		return egress.Credential{}, fmt.Errorf("credential for %q: %w", c.Host, err)
	}
	if !rule.Within(rules) {
		return egress.Credential{}, fmt.Errorf("credential for %q: the allowlist does not cover that host and port", c.Host)
	}
	return parsed, nil
}

// parseCredentials reads those of a specification.
func (s Spec) parseCredentials(secret func(string) string) ([]egress.Credential, error) {
	rules, err := netaddr.ParseRules(s.Allowlist)
	if err != nil {
		return nil, err
	}
	var all []egress.Credential
	for _, c := range s.Credentials {
		parsed, err := c.parse(rules, secret)
		if err != nil {
			return nil, err
		}
		all = append(all, parsed)
	}
	return all, nil
}

// trust is what programs need to believe the proxy where it poses as the host of a credential: a folder with
// certificates. The folder is mounted, not its files, so that what a later process of this instance puts there is
// seen by containers that it has taken over.
type trust struct {
	authority *egress.Authority
	folder    string
	// whole says that the bundle is enough to reach everything on the allowlist.
	whole bool
}

const (
	trustPath   = "/.flynn-trust"
	trustPrefix = "trust-"
	ownFile     = "proxy.pem"  // the authority alone
	bundleFile  = "bundle.pem" // with everybody else's who is trusted
)

// trusts are made once for each set of hosts and process whose containers mount the folder, and live as long as this one.
type trusts struct {
	run string

	mu   sync.Mutex
	made map[string]*trust
}

// of returns the trust for a specification, or nil if it needs none: no credential has a port that is spoken to by TLS.
func (t *trusts) of(host string, spec Spec, credentials []egress.Credential) (*trust, error) {
	var hosts netaddr.Rules
	var names []string
	for _, c := range credentials {
		if c.Rule.Ports()[0] != 80 {
			host, below := c.Rule.Host()
			hosts, names = append(hosts, c.Rule), append(names, fmt.Sprint(host.Name, below))
		}
	}
	if len(hosts) == 0 {
		return nil, nil
	}
	slices.Sort(names)
	own := covers(hosts, spec.Allowlist)
	name := trustPrefix + host + "-" + short(append(names, fmt.Sprint(own))...)
	t.mu.Lock()
	defer t.mu.Unlock()
	if made := t.made[name]; made != nil {
		return made, nil
	}
	authority, err := egress.NewAuthority(hosts)
	if err != nil {
		return nil, err
	}
	made := &trust{authority: authority, folder: filepath.Join(t.run, name)}
	if err := made.write(own); err != nil {
		return nil, fmt.Errorf("write certificates for sandboxes: %w", err)
	}
	t.made[name] = made
	return made, nil
}

// covers says whether every entry of an allowlist names a host with a credential: then no other certificate is needed.
func covers(hosts netaddr.Rules, allowlist []string) bool {
	for _, text := range allowlist {
		rule, err := netaddr.ParseRule(text)
		if err != nil {
			return false
		}
		host, below := rule.Host()
		if !slices.ContainsFunc(hosts, func(h netaddr.Rule) bool {
			named, under := h.Host()
			return named == host && under == below
		}) {
			return false
		}
	}
	return true
}

// write puts the certificates into the folder. Programs take one file in place of their own list, so where hosts without a
// credential may be reached as well, it has the host's list in it; the image's cannot be read from here.
func (t *trust) write(alone bool) error {
	if err := os.MkdirAll(t.folder, 0o755); err != nil {
		return err
	}
	own := t.authority.PEM()
	if err := replaceFile(filepath.Join(t.folder, ownFile), own); err != nil {
		return err
	}
	bundle := own
	if !alone {
		public, err := publicBundle()
		if err != nil {
			return nil // programs that take an extra certificate work; for the others nothing is named
		}
		bundle = slices.Concat(public, own)
	}
	t.whole = true
	return replaceFile(filepath.Join(t.folder, bundleFile), bundle)
}

// replaceFile writes a file that everybody may read.
func replaceFile(path string, text []byte) error {
	draft := path + ".new"
	if err := os.WriteFile(draft, text, 0o644); err != nil {
		return err
	}
	return os.Rename(draft, path)
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

// env names the files in the ways that programs look for them. Node adds one to its own list; of the others each takes it
// in place of its own.
func (t *trust) env() []string {
	env := []string{"NODE_EXTRA_CA_CERTS=" + trustPath + "/" + ownFile}
	if !t.whole {
		return env
	}
	for _, name := range []string{"SSL_CERT_FILE", "CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "GIT_SSL_CAINFO", "CARGO_HTTP_CAINFO", "PIP_CERT"} {
		env = append(env, name+"="+trustPath+"/"+bundleFile)
	}
	return env
}

func (t *trust) mount() Mount { return Mount{Source: t.folder, Target: trustPath, ReadOnly: true} }

// trustKept is how long the folder of a process that is gone stays: longer than any of its containers.
const trustKept = 7 * 24 * time.Hour

// clear removes what processes have left that are gone for long.
func (t *trusts) clear(alive map[string]bool, now time.Time) error {
	left, err := filepath.Glob(filepath.Join(t.run, trustPrefix+"*"))
	for _, folder := range left {
		info, statErr := os.Stat(folder)
		owner, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(folder), trustPrefix), "-")
		if t.uses(folder) || alive[owner] || statErr != nil || now.Sub(info.ModTime()) < trustKept {
			continue
		}
		err = errors.Join(err, os.RemoveAll(folder))
	}
	return err
}

func (t *trusts) uses(folder string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.made[filepath.Base(folder)] != nil
}
