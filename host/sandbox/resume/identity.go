package resume

import (
	"bytes"
	"crypto/ed25519"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"

	"github.com/flynnhost/flynn/host/internal/selfsigned"
)

// An identity is that of one end for one sandbox, in PEM: the end's own certificate and its key, then the certificate of its peer. Each end
// trusts this one certificate of its peer and nothing else, so no authority signs anything, and what was made for one sandbox is of no use
// at another.

// The names in the certificates.
const (
	hostName       = "host"
	supervisorName = "supervisor"
)

// NewIdentities makes the identities of both ends of a sandbox. Both are secrets.
func NewIdentities() (host, supervisor []byte, err error) {
	hostCert, hostKey, err := newCertificate(hostName, x509.ExtKeyUsageClientAuth)
	if err != nil {
		return nil, nil, err
	}
	cert, key, err := newCertificate(supervisorName, x509.ExtKeyUsageServerAuth)
	if err != nil {
		return nil, nil, err
	}
	return bytes.Join([][]byte{hostCert, hostKey, cert}, nil), bytes.Join([][]byte{cert, key, hostCert}, nil), nil
}

func newCertificate(name string, usage x509.ExtKeyUsage) (cert, key []byte, err error) {
	made, err := selfsigned.New("Flynn sandbox "+name, name, usage)
	if err != nil {
		return nil, nil, err
	}
	secret, err := x509.MarshalPKCS8PrivateKey(made.PrivateKey)
	if err != nil {
		return nil, nil, fmt.Errorf("write a key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: certificateBlock, Bytes: made.Certificate[0]}), pem.EncodeToMemory(&pem.Block{Type: keyBlock, Bytes: secret}), nil
}

const (
	certificateBlock = "CERTIFICATE"
	keyBlock         = "PRIVATE KEY"
)

// hostTLS returns the settings for a host with an identity.
func hostTLS(identity []byte) (*tls.Config, error) {
	c, peer, err := parseIdentity(identity)
	if err != nil {
		return nil, err
	}
	c.RootCAs, c.ServerName = peer, supervisorName
	return c, nil
}

// supervisorTLS returns the settings for a supervisor with an identity.
func supervisorTLS(identity []byte) (*tls.Config, error) {
	c, peer, err := parseIdentity(identity)
	if err != nil {
		return nil, err
	}
	c.ClientCAs, c.ClientAuth, c.SessionTicketsDisabled = peer, tls.RequireAndVerifyClientCert, true
	return c, nil
}

// parseIdentity returns the settings for an identity's own certificate, and the one that its peer must have. No error contains any of it.
func parseIdentity(identity []byte) (*tls.Config, *x509.CertPool, error) {
	var blocks []*pem.Block
	for rest := identity; len(bytes.TrimSpace(rest)) > 0; {
		var b *pem.Block
		if b, rest = pem.Decode(rest); b == nil {
			return nil, nil, errIdentity
		}
		blocks = append(blocks, b)
	}
	if len(blocks) != 3 || blocks[0].Type != certificateBlock || blocks[1].Type != keyBlock || blocks[2].Type != certificateBlock {
		return nil, nil, errIdentity
	}
	key, err := x509.ParsePKCS8PrivateKey(blocks[1].Bytes)
	if err != nil {
		return nil, nil, errIdentity
	}
	own, err := x509.ParseCertificate(blocks[0].Bytes)
	if err != nil {
		return nil, nil, errIdentity
	}
	peer, err := x509.ParseCertificate(blocks[2].Bytes)
	if err != nil {
		return nil, nil, errIdentity
	}
	if private, ok := key.(ed25519.PrivateKey); !ok || !private.Public().(ed25519.PublicKey).Equal(own.PublicKey) {
		return nil, nil, errIdentity
	}
	pool := x509.NewCertPool()
	pool.AddCert(peer)
	return &tls.Config{
		Certificates: []tls.Certificate{{Certificate: [][]byte{own.Raw}, PrivateKey: key, Leaf: own}},
		MinVersion:   tls.VersionTLS13,
		// The records are as long as what is sent together, from the first on.
		DynamicRecordSizingDisabled: true,
	}, pool, nil
}

var errIdentity = errors.New("the identity is not a certificate, its key and the certificate of the peer, in PEM")
