// Package signing makes and checks the ed25519 signatures of plugins and policies.
//
// Start with Generate, Sign and Verify. A signature is one line of text: a key and a signature with it. The package does not decide which
// keys to trust: the operator pins them, see Trust.
package signing

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
)

// Key is a public key, written "ed25519:BASE64".
type Key string

const keyPrefix = "ed25519:"

// ParseKey reads a public key.
func ParseKey(text string) (Key, error) {
	digits, ok := strings.CutPrefix(text, keyPrefix)
	raw, err := base64.StdEncoding.Strict().DecodeString(digits)
	if !ok || err != nil || len(raw) != ed25519.PublicKeySize || strings.ContainsAny(digits, "\r\n") {
		return "", fmt.Errorf("%.80q is not a key: write ed25519: and 44 characters, as flynn plugin dev keygen and flynn policy dev keygen print it", text)
	}
	return Key(text), nil
}

// public is the decoded key; a parsed Key is always valid.
func (k Key) public() ed25519.PublicKey {
	raw, _ := base64.StdEncoding.DecodeString(strings.TrimPrefix(string(k), keyPrefix))
	return raw
}

// Of is the public half of a private key.
func Of(private ed25519.PrivateKey) Key {
	return Key(keyPrefix + base64.StdEncoding.EncodeToString(private.Public().(ed25519.PublicKey)))
}

const (
	pemType    = "PRIVATE KEY"
	maxPrivate = 64 << 10 // bytes of its file
)

// Generate generates a private key in a new file that only its owner can read, in the format PKCS 8, and returns its public key.
func Generate(path string) (Key, error) {
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return "", err
	}
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return "", err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return "", fmt.Errorf("create a key: %w", err)
	}
	if err := errors.Join(pem.Encode(f, &pem.Block{Type: pemType, Bytes: der}), f.Sync(), f.Close()); err != nil {
		return "", fmt.Errorf("create a key: %w", errors.Join(err, os.Remove(path)))
	}
	return Of(private), nil
}

// ReadPrivate reads a file of Generate, which other users must not be able to read.
func ReadPrivate(path string) (ed25519.PrivateKey, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("read the key: %w", err)
	}
	if info.Mode().Perm()&0o077 != 0 && runtime.GOOS != "windows" {
		return nil, fmt.Errorf("%s has mode %v, so that others can read the key: run chmod 600, or generate another", path, info.Mode().Perm())
	}
	if info.Size() > maxPrivate {
		return nil, fmt.Errorf("%s is not a private key of flynn plugin dev keygen or flynn policy dev keygen", path)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the key: %w", err)
	}
	block, rest := pem.Decode(text)
	if block == nil || block.Type != pemType || strings.TrimSpace(string(rest)) != "" {
		return nil, fmt.Errorf("%s is not a private key of flynn plugin dev keygen or flynn policy dev keygen", path)
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	private, ok := key.(ed25519.PrivateKey)
	if err != nil || !ok {
		return nil, fmt.Errorf("%s is not an ed25519 key (%v)", path, err)
	}
	return private, nil
}
