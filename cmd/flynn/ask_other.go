//go:build !linux && !darwin

package main

import (
	"errors"
	"os"
)

// hideInput refuses: a secret is not typed where it would be shown.
func hideInput(*os.File) error {
	return errors.New("cannot hide what is typed on this system: give the secret in a file")
}
