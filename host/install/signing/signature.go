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

// Sign is the text that stands for a signature of message. The message should begin with words that no other kind of message
// begins with, so that a signature is of nothing else.
func Sign(private ed25519.PrivateKey, message []byte) []byte {
	return text(Of(private), ed25519.Sign(private, message))
}

// text is the one text that stands for a signature.
func text(key Key, sig []byte) []byte {
	return fmt.Appendf(nil, "%s %s\n", key, base64.StdEncoding.EncodeToString(sig))
}

// ErrWrong means that a signature is not one of the message.
var ErrWrong = errors.New("the signature is of something else, or damaged")

// Verify returns the key whose signature of message the text is.
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

// Trust says whose signatures count.
type Trust struct {
	Keys     []Key
	Required bool // what is not signed by one of the Keys is refused
	// Table is where the operator wrote it ("[policy_trust]"), for errors.
	Table string
}

// String tells one trust from another.
func (t Trust) String() string { return fmt.Sprint(t.Required, slices.Sorted(slices.Values(t.Keys))) }

// Check returns the key that vouches for what signer has signed; "" is for what nobody has. A signature by a key that is not pinned is
// as good as none where any key is pinned, and is not held against it where none is.
func (t Trust) Check(signer Key) (Key, error) {
	switch {
	case signer == "" && t.Required:
		return "", fmt.Errorf("it is not signed, and %s requires a signature", t.Table)
	case signer == "":
		return "", nil
	case slices.Contains(t.Keys, signer):
		return signer, nil
	case t.Required || len(t.Keys) > 0:
		return "", fmt.Errorf("it is signed by %s, which %s keys does not have", signer, t.Table)
	}
	return "", nil
}
