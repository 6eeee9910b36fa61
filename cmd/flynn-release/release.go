package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"
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
	log          io.Writer

	work string // a temporary folder
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
		{"archives", r.archives},
		{"packages", r.packages},
		{"images", r.images},
		{"software bill of materials", r.bill},
		{"formula and install script", r.installers},
		{"index", r.index},
		{"checksums", r.checksums},
	}
}

func (r *release) make(ctx context.Context) (err error) {
	if r.work, err = os.MkdirTemp("", "flynn-release-*"); err != nil {
		return err
	}
	defer os.RemoveAll(r.work)
	if err := os.RemoveAll(r.out); err != nil {
		return err
	}
	if err := os.MkdirAll(r.out, 0o755); err != nil {
		return err
	}
	fmt.Fprintf(r.log, "flynn %s of %s\n", r.version, r.date.Format(time.DateTime))
	for _, s := range r.steps() {
		begin := time.Now()
		if err := s.do(ctx); err != nil {
			return fmt.Errorf("make the %s: %w", s.what, err)
		}
		fmt.Fprintf(r.log, "%-28s %v\n", s.what, time.Since(begin).Round(100*time.Millisecond))
	}
	return nil
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
