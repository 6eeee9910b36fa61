package config

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/flynnhost/flynn/host/sandbox/engine"
	"github.com/flynnhost/flynn/host/sandbox/image"
)

// An image has one of several sources, and a sandbox inherits the source of [sandbox] as a whole or not at all: a
// variation with an image of its own is not built from the Dockerfile of [sandbox], nor the other way round.

// fillImage drops defaults and inherited keys that conflict with the table's own keys.
func (d *decoder) fillImage(at keyPath, s *Sandbox) {
	own := func(key string) bool { return d.lines.has(at.child(key)) }
	switch {
	case s.Dockerfile == "":
		return
	case own("image") && !own("dockerfile"):
		s.Dockerfile, s.BuildContext = "", ""
		return
	case !own("image"):
		s.Image = ""
	}
	if own("dockerfile") {
		if !own("packages") {
			s.Packages = nil
		}
		if !own("binaries") {
			s.Binaries = nil
		}
		if !own("build_context") {
			s.BuildContext = ""
		}
	}
}

// image checks the source of a sandbox's image. Inherited keys are checked with [sandbox].
func (c *checker) image(at keyPath, s Sandbox) {
	own := func(key string) bool { return len(at) == 1 || c.lines.has(at.child(key)) }
	if s.Dockerfile == "" {
		if own("image") {
			c.required(at.child("image"), s.Image, `"node:22-slim"`)
			c.files(at.child("image"), s.Image)
		}
		if s.BuildContext != "" && own("build_context") {
			c.report(at.child("build_context"), "it needs dockerfile", "name the Dockerfile, or remove build_context")
		}
	} else {
		c.dockerfile(at, s, own)
	}
	if s.Compose != "" {
		c.besidesCompose(at, s, own)
	}
	if own("packages") {
		for i, name := range s.Packages {
			if image.CheckPackage(name) != nil {
				c.report(at.child("packages").index(i), fmt.Sprintf("%q is not a name of a package", name), `write one such as "git" or "git=1:2.39.5-0+deb12u2"`)
			}
		}
	}
	if own("binaries") {
		c.binaries(at.child("binaries"), s.Binaries)
	}
}

// files checks an image that is a path: a folder or an archive, whose files a sandbox without an engine shows.
func (c *checker) files(at keyPath, image string) {
	if strings.HasPrefix(image, ".") {
		c.report(at, fmt.Sprintf("%q is neither a reference nor an absolute path", image), `write one such as "node:22-slim", or "/srv/images/debian.tar" with engine = "native"`)
	}
	if !filepath.IsAbs(image) {
		return
	}
	if c.cfg.Sandbox.Engine != engine.Native {
		c.report(at, fmt.Sprintf("%q is a path, and a container engine has images of its own", image), `write engine = "native" in [sandbox], or a reference such as "node:22-slim"`)
		return
	}
	if info, err := os.Stat(image); err != nil {
		c.report(at, fmt.Sprintf("%q: %v", image, cause(err)), "name a folder with the files of an image, or an archive that docker save made")
	} else if !info.IsDir() && !info.Mode().IsRegular() {
		c.report(at, fmt.Sprintf("%q is neither a folder nor an archive", image), "make one with docker save")
	}
}

// dockerfile checks that the files exist and that no other source of the image is set.
func (c *checker) dockerfile(at keyPath, s Sandbox, own func(string) bool) {
	if s.Image != "" && own("image") {
		c.report(at.child("dockerfile"), "image is set as well", "keep one of image and dockerfile")
	}
	const elsewhere = "add them in the Dockerfile, or write image"
	if len(s.Packages) > 0 && own("packages") {
		c.report(at.child("packages"), "packages go on top of image, not of dockerfile", elsewhere)
	}
	if len(s.Binaries) > 0 && own("binaries") {
		c.report(at.child("binaries"), "binaries go on top of image, not of dockerfile", elsewhere)
	}
	if own("dockerfile") {
		c.there(at.child("dockerfile"), s.Dockerfile, false)
	}
	if s.BuildContext != "" && own("build_context") {
		c.there(at.child("build_context"), s.BuildContext, true)
	}
}

// besidesCompose reports keys that have no effect with a compose file, which names the image.
func (c *checker) besidesCompose(at keyPath, s Sandbox, own func(string) bool) {
	for _, k := range []struct {
		key string
		set bool
	}{{"binaries", len(s.Binaries) > 0}, {"dockerfile", s.Dockerfile != ""}, {"packages", len(s.Packages) > 0}} {
		if k.set && own(k.key) {
			c.report(at.child(k.key), "compose is set as well", "keep one of compose and "+k.key)
		}
	}
}

// there checks that a path of the host names a file, or a folder.
func (c *checker) there(at keyPath, path string, folder bool) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		c.report(at, fmt.Sprintf("%s: %v", path, cause(err)), "paths count from the folder of the configuration file")
	case folder && !info.IsDir():
		c.report(at, path+" is not a folder", "name the folder that COPY takes files from")
	case !folder && !info.Mode().IsRegular():
		c.report(at, path+" is not a regular file", "name a file")
	}
}

func (c *checker) binaries(at keyPath, all []Binary) {
	seen := map[string]bool{}
	for i, b := range all {
		each := at.index(i)
		c.required(each.child("name"), b.Name, `"jq"`)
		if b.Name != "" {
			if err := b.Recipe().Validate(); err != nil {
				problem, hint, _ := strings.Cut(strings.TrimPrefix(err.Error(), "binaries: "), ": ")
				c.report(each, problem, hint)
			} else if seen[b.Name] {
				c.report(each.child("name"), fmt.Sprintf("two binaries are named %q", b.Name), "choose another name")
			}
		}
		seen[b.Name] = true
		if b.File != "" {
			c.beside(each.child("file"), b.File)
		}
	}
}

// beside checks that a file exists, in or below the configuration's folder.
func (c *checker) beside(at keyPath, path string) {
	folder, err := filepath.Abs(filepath.Dir(c.cfg.Path))
	if err == nil {
		if relative, err := filepath.Rel(folder, path); err != nil || !filepath.IsLocal(relative) {
			c.report(at, path+" lies outside the folder of the configuration", "copy it there")
			return
		}
	}
	c.there(at, path, false)
}

// Recipe is the binary in the type of package image.
func (b Binary) Recipe() image.Binary {
	return image.Binary{Name: b.Name, URL: b.URL, File: b.File, SHA256: b.SHA256}
}
