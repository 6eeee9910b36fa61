package signing

import (
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// MaxText bounds the text of a signature, in bytes.
const MaxText = 1 << 10

// Sign returns the text of a signature of message. The message should begin with a prefix for its kind, so that the signature is valid for
// nothing else.
func Sign(private ed25519.PrivateKey, message []byte) []byte {
	return text(Of(private), ed25519.Sign(private, message))
}

// text is the text of a signature.
func text(key Key, sig []byte) []byte {
	return fmt.Appendf(nil, "%s %s\n", key, base64.StdEncoding.EncodeToString(sig))
}

// ErrWrong means that a signature does not match the message.
var ErrWrong = errors.New("the signature does not match, or is damaged")

// Verify checks the text of a signature of message and returns its key.
func Verify(signature, message []byte) (Key, error) {
	key, sig, err := parse(signature)
	if err != nil {
		return "", err
	}
	if !ed25519.Verify(key.public(), message, sig) {
		return "", ErrWrong
	}
	return key, nil
}

// parse reads the one line of a signature: key, space, signature.
func parse(signature []byte) (Key, []byte, error) {
	line, rest, ended := strings.Cut(string(signature), "\n")
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

// Trust says which signatures count.
type Trust struct {
	Keys     []Key
	Required bool // everything that is not signed with one of the Keys is refused
	// Table is the table of the configuration ("[policy_trust]"), for errors.
	Table string
}

// String is different for different trusts.
func (t Trust) String() string { return fmt.Sprint(t.Required, slices.Sorted(slices.Values(t.Keys))) }

// Check returns the trusted key of a signature by signer, where "" stands for no signature. A signature by a key that is not pinned is
// refused if any key is pinned, and ignored if none is.
func (t Trust) Check(signer Key) (Key, error) {
	switch {
	case signer == "" && t.Required:
		return "", fmt.Errorf("it is not signed, and %s requires a signature", t.Table)
	case signer == "":
		return "", nil
	case slices.Contains(t.Keys, signer):
		return signer, nil
	case t.Required || len(t.Keys) > 0:
		return "", fmt.Errorf("it is signed by %s, which is not in %s keys", signer, t.Table)
	}
	return "", nil
}
