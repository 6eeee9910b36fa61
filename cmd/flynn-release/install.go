package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/flynnhost/flynn/host/install/signing"
)

// downloads is where the files of a release are published.
const downloads = "https://github.com/flynnhost/flynn/releases/download/"

// bottle is a target's archive in the formula.
type bottle struct{ OS, Arch, File, SHA256 string }

// installers writes the Homebrew formula and the install script.
func (r *release) installers(context.Context) error {
	data := map[string]any{"Version": r.name(), "URL": downloads + r.version, "Bottles": []bottle{}}
	for _, t := range r.targets {
		name := r.title(t) + ".tar.gz"
		sum, err := sumOf(filepath.Join(r.out, name))
		if err != nil {
			return err
		}
		b := bottle{map[string]string{"darwin": "macos", "linux": "linux"}[t.os], map[string]string{"amd64": "intel", "arm64": "arm"}[t.arch], name, sum}
		data["Bottles"] = append(data["Bottles"].([]bottle), b)
	}
	for name, mode := range map[string]fs.FileMode{"flynn.rb": 0o644, "install.sh": 0o755} {
		text, err := fill(name, data)
		if err == nil {
			err = writeFile(filepath.Join(r.out, name), text, mode)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func sumOf(file string) (string, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	_, err = io.Copy(h, f)
	return hex.EncodeToString(h.Sum(nil)), err
}

// checksums writes the SHA-256 of every file, as sha256sum -c reads it, and signs that.
func (r *release) checksums(context.Context) error {
	var text []byte
	err := filepath.WalkDir(r.out, func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		sum, err := sumOf(file)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(r.out, file)
		text = fmt.Appendf(text, "%s  %s\n", sum, filepath.ToSlash(name))
		return err
	})
	if err = errors.Join(err, writeFile(filepath.Join(r.out, "checksums.txt"), text, 0o644)); err != nil || r.key == "" {
		return err
	}
	private, err := signing.ReadPrivate(r.key)
	if err != nil {
		return err
	}
	return writeFile(filepath.Join(r.out, "checksums.txt.sig"), signing.Sign(private, text), 0o644)
}
