package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/flynnhost/flynn/host/admin/upgrade"
	"github.com/flynnhost/flynn/host/install/firstparty"
	"github.com/flynnhost/flynn/host/store/postgres"
	"github.com/flynnhost/flynn/host/store/sqlite"
	"github.com/flynnhost/flynn/sdk/proto/handshake"
)

// repository is where Flynn is developed.
const repository = "https://github.com/flynnhost/flynn"

// downloads is where the files of a release are published.
const downloads = repository + "/releases/download/"

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

// index describes the release for flynn upgrade.
func (r *release) index(context.Context) error {
	text, err := os.ReadFile(filepath.Join(r.tree(r.targets[0]), "lib", "flynn", firstparty.ManifestName))
	if err != nil {
		return err
	}
	var brings firstparty.Manifest
	if err := json.Unmarshal(text, &brings); err != nil {
		return err
	}
	text, err = json.MarshalIndent(upgrade.Index{
		Version: r.version, Commit: r.commit, Date: r.date, Page: repository + "/releases/tag/" + r.version, Schema: sqlite.NewestSchema(), Postgres: postgres.NewestSchema(),
		Protocol: handshake.Protocol, Plugins: versions(brings.Plugins), Policies: versions(brings.Policies),
	}, "", "  ")
	if err != nil {
		return err
	}
	return writeFile(filepath.Join(r.out, upgrade.IndexName), append(text, '\n'), 0o644)
}

func versions(entries map[string]firstparty.Entry) map[string]string {
	list := map[string]string{}
	for name, e := range entries {
		list[name] = e.Version
	}
	return list
}

// checksums writes the SHA-256 of every file, as sha256sum -c reads it.
func (r *release) checksums(context.Context) error {
	found, err := os.ReadDir(r.out)
	if err != nil {
		return err
	}
	var text []byte
	for _, f := range found {
		sum, err := sumOf(filepath.Join(r.out, f.Name()))
		if err != nil {
			return err
		}
		text = fmt.Appendf(text, "%s  %s\n", sum, f.Name())
	}
	return writeFile(filepath.Join(r.out, "checksums.txt"), text, 0o644)
}
