package main

import (
	"compress/gzip"
	"context"
	"path/filepath"
	"strconv"
	"time"

	"github.com/flynnhost/flynn/host/admin/service"
)

// packages makes a .deb and an .rpm for each Linux target, with nfpm.
func (r *release) packages(ctx context.Context) error {
	extra := filepath.Join(r.work, "package")
	if err := r.packageFiles(extra); err != nil {
		return err
	}
	compression := "zstd"
	if r.level == gzip.BestSpeed {
		compression += ":fastest"
	}
	for _, t := range r.linux() {
		config, err := fill("nfpm.yaml", map[string]any{
			"Compression": compression, "Arch": t.arch, "Version": r.version, "Date": r.date.Format(time.RFC3339), "Tree": r.tree(t), "Extra": extra, "Docs": docs, "Config": r.config(),
		})
		if err != nil {
			return err
		}
		file := filepath.Join(r.work, "nfpm-"+t.arch+".yaml")
		if err := writeFile(file, config, 0o644); err != nil {
			return err
		}
		for _, format := range []string{"deb", "rpm"} {
			epoch := []string{"SOURCE_DATE_EPOCH=" + strconv.FormatInt(r.date.Unix(), 10)}
			name := "flynn-" + r.name() + "-" + t.String() + "." + format
			if _, err := output(ctx, r.work, epoch, r.tools["nfpm"], "package", "-f", file, "-p", format, "-t", filepath.Join(r.out, name)); err != nil {
				return err
			}
		}
	}
	return nil
}

// config is the first configuration of packages and images.
func (r *release) config() string { return filepath.Join(r.source, "examples", "docker", "flynn.toml") }

// packageFiles writes what packages have beside the tree.
func (r *release) packageFiles(to string) error {
	for _, name := range []string{"flynn.sysusers", "postinstall.sh", "preremove.sh", "postremove.sh", "copyright", "apparmor"} {
		text, err := files.ReadFile("files/" + name)
		if err == nil {
			err = writeFile(filepath.Join(to, name), text, 0o644)
		}
		if err != nil {
			return err
		}
	}
	text, err := unit()
	if err != nil {
		return err
	}
	return writeFile(filepath.Join(to, "flynn.service"), []byte(text), 0o644)
}

// unit returns the unit of the packages: that of flynn service install, with the paths of a package.
func unit() (string, error) {
	return service.Spec{
		Name: "flynn", System: true, User: "flynn", Group: "flynn", Program: "/usr/bin/flynn", Config: "/etc/flynn/flynn.toml",
		Secrets: "/etc/flynn/secrets.env", Environment: []string{"HOME=/var/lib/flynn"}, Folder: "/var/lib/flynn", State: "flynn", IfConfigured: true,
	}.Unit()
}
