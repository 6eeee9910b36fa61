package signing

import (
	"bytes"
	"crypto/ed25519"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func pair(t testing.TB) (ed25519.PrivateKey, Key) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "key")
	key, err := Generate(file)
	if err != nil {
		t.Fatal(err)
	}
	private, err := ReadPrivate(file)
	if err != nil {
		t.Fatal(err)
	}
	return private, key
}

func TestSignAndVerify(t *testing.T) {
	private, key := pair(t)
	signature := Sign(private, []byte("hello"))
	if got, err := Verify(signature, []byte("hello")); err != nil || got != key {
		t.Errorf("got %s, %v; want %s", got, err, key)
	}
	for name, c := range map[string]struct{ signature, message string }{
		"another message": {string(signature), "hallo"},
		"nothing":         {"", "hello"},
		"two lines":       {string(signature) + "\n", "hello"},
		"no key":          {strings.TrimPrefix(string(signature), "ed25519:"), "hello"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := Verify([]byte(c.signature), []byte(c.message)); err == nil {
				t.Error("it was taken")
			}
		})
	}
}

func TestTrust(t *testing.T) {
	_, mine := pair(t)
	_, other := pair(t)
	for name, c := range map[string]struct {
		trust  Trust
		signer Key
		want   Key
		says   string
	}{
		"unsigned, nothing is asked":      {Trust{}, "", "", ""},
		"unsigned, a signature is needed": {Trust{Required: true, Table: "[t]"}, "", "", "[t] requires a signature"},
		"signed, nobody is pinned":        {Trust{}, mine, "", ""},
		"signed by a pinned key":          {Trust{Keys: []Key{other, mine}}, mine, mine, ""},
		"signed by another":               {Trust{Keys: []Key{other}, Table: "[t]"}, mine, "", "which is not in [t] keys"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := c.trust.Check(c.signer)
			if got != c.want || (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
}

// FuzzSignature holds that only one text stands for a signature.
func FuzzSignature(f *testing.F) {
	private, _ := pair(f)
	f.Add(Sign(private, []byte("hello")))
	f.Add([]byte("ed25519: \n"))
	f.Fuzz(func(t *testing.T, signature []byte) {
		key, sig, err := parse(signature)
		if err == nil && !bytes.Equal(text(key, sig), signature) {
			t.Errorf("%q is another text of the same signature", signature)
		}
	})
}

func TestKeyFilesArePrivate(t *testing.T) {
	file := filepath.Join(t.TempDir(), "key")
	if _, err := Generate(file); err != nil {
		t.Fatal(err)
	}
	if _, err := Generate(file); err == nil || !strings.Contains(err.Error(), "exists") {
		t.Errorf("in place of another: %v", err)
	}
	if err := os.Chmod(file, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadPrivate(file); err == nil || !strings.Contains(err.Error(), "others can read the key") {
		t.Errorf("open to others: %v", err)
	}
	if err := os.WriteFile(file+".txt", []byte("no key"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadPrivate(file + ".txt"); err == nil || !strings.Contains(err.Error(), "not a private key") {
		t.Errorf("another file: %v", err)
	}
}
