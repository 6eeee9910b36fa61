package backup

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"filippo.io/age"

	"github.com/flynnhost/flynn/host/config"
)

// work is the time that a passphrase takes, as maxWork has it. Tests change it.
var work = 18

// maxWork bounds the time that a passphrase of a backup takes, as the logarithm of its rounds: 2^22 take about 15 seconds.
const maxWork = 22

// Recipients returns for whom a backup is encrypted: the holders of keys, or of a passphrase.
func Recipients(keys []string, passphrase config.Secret) (all []age.Recipient, err error) {
	switch {
	case len(keys) > 0 && passphrase != "":
		return nil, errors.New("there are keys and a passphrase: leave one of the two")
	case passphrase != "":
		r, err := age.NewScryptRecipient(passphrase.Reveal())
		if err != nil {
			return nil, err
		}
		r.SetWorkFactor(work)
		return []age.Recipient{r}, nil
	case len(keys) == 0:
		return nil, errors.New("a backup holds secrets and conversations, so it is encrypted: name a key, which flynn backup key makes, or a passphrase")
	}
	for _, key := range keys {
		found, err := age.ParseRecipients(strings.NewReader(key))
		if err != nil || len(found) != 1 {
			return nil, fmt.Errorf("%.20q is not a public key of age: write one such as age1..., which flynn backup key prints", key)
		}
		all = append(all, found...)
	}
	return all, nil
}

// Identities returns what opens a backup: the keys in a file of age, or a passphrase.
func Identities(file string, passphrase config.Secret) ([]age.Identity, error) {
	switch {
	case file != "" && passphrase != "":
		return nil, errors.New("there are a key and a passphrase: leave one of the two")
	case passphrase != "":
		id, err := age.NewScryptIdentity(passphrase.Reveal())
		if err != nil {
			return nil, err
		}
		id.SetMaxWorkFactor(maxWork)
		return []age.Identity{id}, nil
	case file == "":
		return nil, errors.New("the backup is encrypted: name the file with its key, or the passphrase")
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	ids, err := age.ParseIdentities(f)
	if err != nil {
		return nil, fmt.Errorf("read the key in %s: it is not a key file of age, as flynn backup key makes it", file) // the error could quote it
	}
	return ids, nil
}

// NewKey writes a new secret key to a file, which must not exist, and returns its public key.
func NewKey(file string) (public string, err error) {
	id, err := age.GenerateX25519Identity()
	if err != nil {
		return "", err
	}
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return "", err
	}
	var text bytes.Buffer
	fmt.Fprintf(&text, "# public key: %s\n%s\n", id.Recipient(), id)
	_, err = f.Write(text.Bytes())
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return "", errors.Join(fmt.Errorf("write %s: %w", filepath.Base(file), err), os.Remove(file))
	}
	return id.Recipient().String(), nil
}
