package pack

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/flynnhost/flynn/host/durable"
	"github.com/flynnhost/flynn/host/policy/author"
)

// statement is what a signature covers. Its JSON, in this order of fields and after statementPrefix, is what is signed.
type statement struct {
	Name    string   `json:"name"`
	Version string   `json:"version"`
	ABI     string   `json:"abi"`
	Kinds   []string `json:"kinds"` // sorted
	Limits  struct {
		Fuel      int64         `json:"fuel"`
		Memory    int64         `json:"memory"`
		Depth     int           `json:"depth"`
		HostCalls int           `json:"host_calls"`
		Wall      time.Duration `json:"wall_ns"`
	} `json:"limits"` // as the manifest has them, 0 for one that it leaves to the host
	Module string `json:"module"`
	Source string `json:"source"`
}

// statementPrefix keeps a signature from being one of anything else.
const statementPrefix = "flynn policy signature 1\n"

func (p *Package) statement() statement { return statementOf(p.Manifest) }

func statementOf(m author.Manifest) statement {
	s := statement{
		Name: m.Name, Version: m.Version, ABI: m.ABI, Kinds: slices.Sorted(slices.Values(m.Kinds)), Module: m.Digest, Source: m.Source,
	}
	l := m.Limits.Policy()
	s.Limits.Fuel, s.Limits.Memory, s.Limits.Depth, s.Limits.HostCalls, s.Limits.Wall = l.Fuel, l.Memory, l.Depth, l.HostCalls, l.Wall
	return s
}

func (s statement) bytes() []byte {
	text, _ := json.Marshal(s) // strings and numbers
	return append([]byte(statementPrefix), text...)
}

func (s statement) sign(private ed25519.PrivateKey) []byte {
	return signatureText(keyOf(private), ed25519.Sign(private, s.bytes()))
}

// signatureText is the one text of a policy.sig that stands for a signature.
func signatureText(key Key, sig []byte) []byte {
	return fmt.Appendf(nil, "%s %s\n", key, base64.StdEncoding.EncodeToString(sig))
}

// verify returns the key of a signature that is right.
func (s statement) verify(text []byte) (Key, error) {
	key, sig, err := parseSignature(text)
	if err != nil {
		return "", err
	}
	if !ed25519.Verify(key.public(), s.bytes(), sig) {
		return "", errors.New("the signature is of another policy, or damaged")
	}
	return key, nil
}

// parseSignature reads the one line of a policy.sig: key, space, signature.
func parseSignature(text []byte) (Key, []byte, error) {
	line, rest, ended := strings.Cut(string(text), "\n")
	first, second, two := strings.Cut(line, " ")
	key, err := ParseKey(first)
	if err != nil {
		return "", nil, err
	}
	sig, err := base64.StdEncoding.Strict().DecodeString(second)
	if !ended || rest != "" || !two || err != nil || len(sig) != ed25519.SignatureSize || strings.Contains(second, "\r") {
		return "", nil, errors.New("it is not one line of a key and a signature")
	}
	return key, sig, nil
}

// Sign writes the digests of the module and of its source into a folder's policy.toml, and the signature of it all into its policy.sig.
func Sign(dir string, private ed25519.PrivateKey) (*Package, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	c, err := readContents(root, filepath.Join(dir, manifestName))
	if err != nil {
		return nil, err
	}
	delete(c.files, signatureName)
	if err := c.seal(true); err != nil {
		return nil, err
	}
	p, err := newPackage(c.files)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	p.Signer, p.files[signatureName] = keyOf(private), p.statement().sign(private)
	return p, errors.Join(durable.WriteFile(filepath.Join(dir, manifestName), p.files[manifestName], 0o644),
		durable.WriteFile(filepath.Join(dir, signatureName), p.files[signatureName], 0o644))
}

// Trust says whose policies are taken.
type Trust struct {
	Keys     []Key
	Required bool // what is not signed by one of the Keys is refused
}

// String tells one trust from another.
func (t Trust) String() string { return fmt.Sprint(t.Required, slices.Sorted(slices.Values(t.Keys))) }

// check returns the key that vouches for a package. A signature by a key that is not pinned is as good as none where any key is
// pinned, and is not held against it where none is.
func (t Trust) check(p *Package) (Key, error) {
	switch {
	case p.Signer == "" && t.Required:
		return "", fmt.Errorf("%w, and [policy_trust] requires a signature", errNoKey)
	case p.Signer == "":
		return "", nil
	case slices.Contains(t.Keys, p.Signer):
		return p.Signer, nil
	case t.Required || len(t.Keys) > 0:
		return "", fmt.Errorf("it is signed by %s, which [policy_trust] keys does not have", p.Signer)
	}
	return "", nil
}
