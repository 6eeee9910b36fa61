package gateway

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/flynnhost/flynn/host/internal/redact"
)

const (
	tokenBytes = 32
	// minToken keeps hand-written tokens hard to guess; a generated one has 43 characters.
	minToken = 32
	maxToken = 256
)

// matches compares a token with a given one in a time that depends on neither.
func matches(token redact.Secret, given string) bool {
	want, got := sha256.Sum256([]byte(token.Reveal())), sha256.Sum256([]byte(given))
	return subtle.ConstantTimeCompare(want[:], got[:]) == 1
}

// ReadToken returns the token in path for a client. It refuses a file that others could read or have written. Root, who looks after the
// host of a service's user, takes the file of another user if its folder is that user's as well, and nobody else can write there.
func ReadToken(path string) (string, error) {
	t, err := readToken(path, func(info fs.FileInfo) bool { return ownedByUs(info) || ofOneUser(path, info) })
	return t.Reveal(), err
}

// loadToken reads the token, and creates it first if there is none.
func loadToken(path string) (redact.Secret, error) {
	if path == "" {
		return "", errors.New("gateway has no token file; set [gateway] token_file")
	}
	t, err := readToken(path, ownedByUs)
	if !errors.Is(err, fs.ErrNotExist) {
		return t, err
	}
	if err := makeToken(path); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", fmt.Errorf("create token file %s: %w", path, err)
	}
	// Read back: another process may have been first.
	return readToken(path, ownedByUs)
}

// makeToken creates path with a new token. The file appears whole or not at all, so a crash leaves no empty token
// behind, and it never replaces one: link fails if the name is taken.
func makeToken(path string) error {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	tmp, err := os.CreateTemp(dir, ".token-*") // O_EXCL and 0600
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name())
	raw := make([]byte, tokenBytes)
	_, _ = rand.Read(raw) // never fails
	_, err = io.WriteString(tmp, base64.RawURLEncoding.EncodeToString(raw)+"\n")
	if err := errors.Join(err, tmp.Sync(), tmp.Close()); err != nil {
		return err
	}
	return os.Link(tmp.Name(), path)
}

func readToken(path string, trusted func(fs.FileInfo) bool) (redact.Secret, error) {
	f, err := openNoFollow(path)
	if err != nil {
		return "", fmt.Errorf("open token file: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return "", fmt.Errorf("inspect token file: %w", err)
	}
	if err := private(path, info, trusted); err != nil {
		return "", err
	}
	data, err := io.ReadAll(io.LimitReader(f, maxToken+2))
	if err != nil {
		return "", fmt.Errorf("read token file: %w", err)
	}
	text := strings.TrimRight(string(data), "\r\n")
	if len(text) < minToken || len(text) > maxToken || strings.Trim(text, tokenAlphabet) != "" {
		return "", fmt.Errorf("token file %s must hold one line of %d to %d letters, digits, - or _; remove it, and the next start creates a new one",
			path, minToken, maxToken)
	}
	return redact.Secret(text), nil
}

// tokenAlphabet is base64url, which needs no escaping in a URL fragment or a header.
const tokenAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

// private refuses a token file that others could have read or written, or whose owner is not trusted.
func private(path string, info fs.FileInfo, trusted func(fs.FileInfo) bool) error {
	if !info.Mode().IsRegular() {
		return fmt.Errorf("token file %s is not a regular file", path)
	}
	if perm := info.Mode().Perm(); perm&0o077 != 0 {
		return fmt.Errorf("token file %s has mode %#o and others can reach it; run: chmod 600 %s", path, perm, path)
	}
	if !trusted(info) {
		return fmt.Errorf("token file %s belongs to another user; remove it or set [gateway] token_file to a path of your own", path)
	}
	return nil
}
