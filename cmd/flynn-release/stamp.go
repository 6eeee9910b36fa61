package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"golang.org/x/mod/semver"
)

// stamp is what a release is called. It comes from the commit alone, and so does everything in the release that has a time.
type stamp struct {
	version string // "v1.2.3"
	commit  string
	date    time.Time // of the commit
	dirty   bool      // the checkout has changes that are not in the commit
}

// name returns the version as file names and packages have it.
func (s stamp) name() string { return strings.TrimPrefix(s.version, "v") }

// tag returns the version as the tags of images have it, which know no plus sign.
func (s stamp) tag() string { return strings.ReplaceAll(s.name(), "+", "_") }

// linker returns the flags that record the stamp in a program.
func (s stamp) linker() string {
	const pkg = "github.com/flynnhost/flynn/host/buildinfo."
	return "-s -w -X " + pkg + "version=" + s.version + " -X " + pkg + "commit=" + s.commit + " -X " + pkg + "date=" + s.date.Format(time.RFC3339)
}

// readStamp reads the commit of the checkout. Without a version and a tag the version says which commit it is.
func readStamp(ctx context.Context, dir, version string) (s stamp, err error) {
	head, err := output(ctx, dir, nil, "git", "log", "-1", "--format=%H %ct")
	if err != nil {
		return s, err
	}
	commit, unix, _ := strings.Cut(strings.TrimSpace(head), " ")
	seconds, err := strconv.ParseInt(unix, 10, 64)
	if err != nil {
		return s, fmt.Errorf("read the commit's date: %w", err)
	}
	s = stamp{version: version, commit: commit, date: time.Unix(seconds, 0).UTC()}
	if s.version == "" {
		s.version = s.ofTags(ctx, dir)
	}
	changed, err := output(ctx, dir, nil, "git", "status", "--porcelain", "--untracked-files=no")
	if err != nil {
		return s, err
	}
	if s.dirty = changed != ""; s.dirty && version == "" {
		s.version += "+dirty"
	}
	if !semver.IsValid(s.version) || s.version != semver.Canonical(s.version)+semver.Build(s.version) {
		return s, fmt.Errorf("version %q: write one such as v1.2.3", s.version)
	}
	return s, nil
}

// ofTags returns the version of the commit's tag.
func (s stamp) ofTags(ctx context.Context, dir string) string {
	tag, err := output(ctx, dir, nil, "git", "describe", "--tags", "--exact-match", "--match", "v*")
	if err == nil {
		return strings.TrimSpace(tag)
	}
	return "v0.0.0-" + s.date.Format("20060102150405") + "-" + s.commit[:12] // as the go command names such commits
}
