package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/flynnhost/flynn/host/admin/upgrade"
)

// target is a platform.
type target struct{ os, arch string }

func (t target) String() string { return t.os + "-" + t.arch }

// release is one run. Its methods are the steps.
type release struct {
	stamp
	source       string // the checkout
	out          string // the folder of the release
	certificates string // the authorities of the image
	targets      []target
	level        int // of the compression of archives and images; with gzip.BestSpeed, packages are compressed fast as well
	log          io.Writer

	work  string            // a temporary folder
	tools map[string]string // the programs by their names
}

// step is one of the things that a release consists of.
type step struct {
	what string
	do   func(context.Context) error
}

func (r *release) steps() []step {
	return []step{
		{"tools", r.buildTools},
		{"policies", r.buildPolicies},
		{"programs", r.buildPrograms},
		{"completion", r.complete},
		{"trees", r.stage},
		{"index", r.index},
		{"archives", r.archives},
		{"packages", r.packages},
		{"images", r.images},
		{"software bill of materials", r.bill},
		{"formula and install script", r.installers},
		{"checksums", r.checksums},
	}
}

func (r *release) make(ctx context.Context) (err error) {
	if r.work, err = os.MkdirTemp("", "flynn-release-*"); err != nil {
		return err
	}
	defer os.RemoveAll(r.work)
	if err := r.empty(); err != nil {
		return err
	}
	fmt.Fprintf(r.log, "flynn %s of %s\n", r.version, r.date.Format(time.DateTime))
	if r.dirty {
		fmt.Fprintf(r.log, "warning: the checkout has changes that are not in commit %.12s: nobody else can make these files\n", r.commit)
	}
	for _, s := range r.steps() {
		begin := time.Now()
		if err := s.do(ctx); err != nil {
			return fmt.Errorf("make the %s: %w", s.what, err)
		}
		fmt.Fprintf(r.log, "%-28s %v\n", s.what, time.Since(begin).Round(100*time.Millisecond))
	}
	return nil
}

// empty makes out an empty folder. It deletes nothing but an earlier release, which the index shows it to be.
func (r *release) empty() error {
	found, err := os.ReadDir(r.out)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if _, err := os.Stat(filepath.Join(r.out, upgrade.IndexName)); err != nil && len(found) > 0 {
		return fmt.Errorf("%s has files and is not an earlier release, since it has no %s: choose another folder with -out", r.out, upgrade.IndexName)
	}
	return errors.Join(os.RemoveAll(r.out), os.MkdirAll(r.out, 0o755))
}

// tree is the folder with everything that is installed for a target.
func (r *release) tree(t target) string { return filepath.Join(r.work, "trees", r.title(t)) }

// title names a target's archive and the folder in it.
func (r *release) title(t target) string { return "flynn-" + r.name() + "-" + t.String() }

// linux returns the targets that have packages and an image.
func (r *release) linux() (list []target) {
	for _, t := range r.targets {
		if t.os == "linux" {
			list = append(list, t)
		}
	}
	return list
}
