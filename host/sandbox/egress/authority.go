package egress

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"sync"
	"time"

	"github.com/flynnhost/flynn/host/internal/netaddr"
)

const (
	// authorityLife is the validity of an authority. Its key is kept in memory only, so it ends with the process anyway.
	authorityLife = 365 * 24 * time.Hour
	// leafLife is the validity of a host's certificate; one with less than leafRenew left is replaced.
	leafLife  = 24 * time.Hour
	leafRenew = 12 * time.Hour
	// backdate allows for slow clocks in containers.
	backdate = time.Hour
	// maxLeaves bounds the cached certificates: a wildcard rule allows any number of names.
	maxLeaves = 256
)

// Authority issues the certificates with which the proxy impersonates the hosts of credentials to programs that trust the authority. It is
// constrained to those hosts (RFC 5280, 4.2.1.10), so its certificates are invalid for any other.
type Authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey

	mu     sync.Mutex
	leaves map[string]*tls.Certificate
}

// NewAuthority makes an authority for the hosts of the rules.
func NewAuthority(rules netaddr.Rules) (*Authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make authority: %w", err)
	}
	now := time.Now()
	template := &x509.Certificate{
		Subject:   pkix.Name{CommonName: "Flynn sandbox proxy"},
		NotBefore: now.Add(-backdate), NotAfter: now.Add(authorityLife),
		KeyUsage: x509.KeyUsageCertSign, IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true,
		ExtKeyUsage:                 []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		PermittedDNSDomainsCritical: true,
	}
	constrain(template, rules)
	cert, err := issue(template, nil, &key.PublicKey, key)
	if err != nil {
		return nil, err
	}
	return &Authority{cert: cert, key: key, leaves: make(map[string]*tls.Certificate)}, nil
}

// constrain lists the permitted hosts; if there is no name of a kind, all names of that kind are excluded.
func constrain(template *x509.Certificate, rules netaddr.Rules) {
	for _, r := range rules {
		host, _ := r.Host()
		if host.IsAddr() {
			bits := host.Addr.BitLen()
			template.PermittedIPRanges = append(template.PermittedIPRanges, &net.IPNet{IP: host.Addr.AsSlice(), Mask: net.CIDRMask(bits, bits)})
			continue
		}
		template.PermittedDNSDomains = append(template.PermittedDNSDomains, host.Name)
	}
	if len(template.PermittedDNSDomains) == 0 {
		template.PermittedDNSDomains = []string{"invalid"} // reserved, so it never exists (RFC 6761, 6.4)
	}
	if len(template.PermittedIPRanges) == 0 {
		template.ExcludedIPRanges = []*net.IPNet{
			{IP: net.IPv4zero.To4(), Mask: net.CIDRMask(0, 32)}, {IP: net.IPv6zero, Mask: net.CIDRMask(0, 128)},
		}
	}
}

// issue signs a certificate; it is self-signed if parent is nil.
func issue(template, parent *x509.Certificate, public *ecdsa.PublicKey, signer *ecdsa.PrivateKey) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, fmt.Errorf("issue certificate: %w", err)
	}
	template.SerialNumber = serial
	if parent == nil {
		parent = template
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, public, signer)
	if err != nil {
		return nil, fmt.Errorf("issue certificate: %w", err)
	}
	return x509.ParseCertificate(der)
}

// PEM returns the authority's certificate for programs to trust.
func (a *Authority) PEM() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw})
}

// leaf returns a certificate for a host.
func (a *Authority) leaf(h netaddr.Host) (*tls.Certificate, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if kept := a.leaves[h.Name]; kept != nil && time.Until(kept.Leaf.NotAfter) > leafRenew {
		return kept, nil
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("issue certificate: %w", err)
	}
	now := time.Now()
	template := &x509.Certificate{
		Subject:   pkix.Name{Organization: []string{"Flynn sandbox proxy"}},
		NotBefore: now.Add(-backdate), NotAfter: now.Add(leafLife),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true,
	}
	if h.IsAddr() {
		template.IPAddresses = []net.IP{h.Addr.AsSlice()}
	} else {
		template.DNSNames = []string{h.Name}
	}
	cert, err := issue(template, a.cert, &key.PublicKey, a.key)
	if err != nil {
		return nil, err
	}
	if len(a.leaves) >= maxLeaves {
		clear(a.leaves)
	}
	leaf := &tls.Certificate{Certificate: [][]byte{cert.Raw, a.cert.Raw}, PrivateKey: key, Leaf: cert}
	a.leaves[h.Name] = leaf
	return leaf, nil
}
