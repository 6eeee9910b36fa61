package pack

import (
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/flynnhost/flynn/host/install/folder"
	"github.com/flynnhost/flynn/host/install/signing"
	"github.com/flynnhost/flynn/host/internal/durable"
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

// statementPrefix prevents a signature from being valid for anything else.
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

func (s statement) sign(private ed25519.PrivateKey) []byte { return signing.Sign(private, s.bytes()) }

// verify returns the key of a valid signature.
func (s statement) verify(text []byte) (Key, error) {
	key, err := signing.Verify(text, s.bytes())
	if errors.Is(err, signing.ErrWrong) {
		err = errors.New("the signature is of another policy, or damaged")
	}
	return key, err
}

// Sign writes the digests of the module and of its source into a folder's policy.toml, and the signature into its policy.sig.
func Sign(dir string, private ed25519.PrivateKey) (*Package, error) {
	d, err := folder.Open(dir, bounds)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	c, err := readContents(d, filepath.Join(dir, manifestName))
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
	p.Signer, p.files[signatureName] = signing.Of(private), p.statement().sign(private)
	return p, errors.Join(durable.WriteFile(filepath.Join(dir, manifestName), p.files[manifestName], 0o644),
		durable.WriteFile(filepath.Join(dir, signatureName), p.files[signatureName], 0o644))
}

// Key is a public key, Trust says whose policies are accepted.
type (
	Key   = signing.Key
	Trust = signing.Trust
)
