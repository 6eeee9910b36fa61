package image

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// Recipe describes an image. Either Image is set, optionally with Packages and Binaries, or Dockerfile.
type Recipe struct {
	Image string
	// Packages are installed with the image's own package manager, apt or apk: "git", "git=1:2.39.5-0+deb12u2".
	Packages []string
	// Binaries are placed in /usr/local/bin.
	Binaries []Binary
	// Dockerfile and Context are absolute paths on this host; an empty Context is the Dockerfile's folder.
	Dockerfile, Context string
	// Network is the network of builds: none, bridge or host; bridge by default.
	Network string
}

// Binary is a program to add. Either URL or File is set.
type Binary struct {
	Name   string // under /usr/local/bin
	URL    string // https
	File   string // absolute
	SHA256 string // of the program, 64 hexadecimal digits
}

// The strategies for building an image.
const (
	AsIs       = "image"
	OnTop      = "image with additions"
	Dockerfile = "dockerfile"
)

// Strategy returns the strategy for a recipe.
func (r Recipe) Strategy() string {
	switch {
	case r.Dockerfile != "":
		return Dockerfile
	case len(r.Packages)+len(r.Binaries) > 0:
		return OnTop
	}
	return AsIs
}

// Limits of a recipe.
const (
	maxPackages = 500
	maxBinaries = 64
)

// Validate refuses an invalid recipe. Errors use the configuration's names of the keys.
func (r Recipe) Validate() error {
	if err := r.oneStrategy(); err != nil {
		return err
	}
	if len(r.Packages) > maxPackages || len(r.Binaries) > maxBinaries {
		return fmt.Errorf("packages and binaries: at most %d and %d are possible; use a dockerfile", maxPackages, maxBinaries)
	}
	for _, name := range r.Packages {
		if err := CheckPackage(name); err != nil {
			return err
		}
	}
	for i, b := range r.Binaries {
		if err := b.Validate(); err != nil {
			return err
		}
		if slices.ContainsFunc(r.Binaries[:i], func(other Binary) bool { return other.Name == b.Name }) {
			return fmt.Errorf("binaries: %q is listed twice", b.Name)
		}
	}
	if !slices.Contains([]string{"", "none", "bridge", "host"}, r.Network) {
		return fmt.Errorf("build_network %q is not one of none, bridge, host", r.Network)
	}
	return nil
}

// oneStrategy refuses combinations of keys that contradict each other.
func (r Recipe) oneStrategy() error {
	switch {
	case r.Dockerfile == "" && r.Image == "":
		return errors.New("neither image nor dockerfile is set")
	case r.Dockerfile == "" && r.Context != "":
		return errors.New("build_context requires dockerfile")
	case r.Dockerfile == "":
		return nil
	case r.Image != "":
		return errors.New("image and dockerfile clash: keep one of them")
	case len(r.Packages) > 0:
		return errors.New("packages and dockerfile clash: install them in the Dockerfile")
	case len(r.Binaries) > 0:
		return errors.New("binaries and dockerfile clash: copy them in the Dockerfile")
	case !filepath.IsAbs(r.Dockerfile) || r.Context != "" && !filepath.IsAbs(r.Context):
		return errors.New("dockerfile and build_context must be absolute paths")
	}
	return nil
}

// folder returns the folder of the build context.
func (r Recipe) folder() string { return cmp.Or(r.Context, filepath.Dir(r.Dockerfile)) }

var (
	packageName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9+._:~=-]*$`) })
	binaryName  = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._+-]{0,63}$`) })
	sha256Hex   = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[0-9a-f]{64}$`) })
)

// CheckPackage refuses a name that a package manager could interpret as anything but a package, with or without a version.
func CheckPackage(name string) error {
	_, version, pinned := strings.Cut(name, "=")
	switch {
	case len(name) > 200 || !packageName().MatchString(name) || pinned && (version == "" || strings.Contains(version, "=")):
		return fmt.Errorf("packages: %q is not a package name such as git or git=1:2.39.5-0+deb12u2", name)
	case strings.HasSuffix(name, "-") || strings.Contains(name, "-="): // apt would remove the package
		return fmt.Errorf("packages: %q ends in a dash: packages can only be installed, not removed", name)
	}
	return nil
}

// Validate refuses a binary that cannot be fetched or verified.
func (b Binary) Validate() error {
	switch {
	case !binaryName().MatchString(b.Name):
		return fmt.Errorf("binaries: %q is not a program name: use letters, digits and ._+-", b.Name)
	case b.URL == "" && b.File == "":
		return fmt.Errorf("binaries: %s has neither url nor file", b.Name)
	case b.URL != "" && b.File != "":
		return fmt.Errorf("binaries: %s has both url and file: keep one of them", b.Name)
	case b.SHA256 == "":
		return fmt.Errorf("binaries: %s has no sha256: run sha256sum on a copy that you trust", b.Name)
	case !sha256Hex().MatchString(b.SHA256):
		return fmt.Errorf("binaries: sha256 of %s is not 64 lower-case hexadecimal digits", b.Name)
	case b.File != "" && !filepath.IsAbs(b.File):
		return fmt.Errorf("binaries: file of %s is not an absolute path", b.Name)
	case b.URL != "":
		if u, err := url.Parse(b.URL); err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil {
			return fmt.Errorf("binaries: url of %s must be an https address such as https://example.com/program", b.Name)
		}
	}
	return nil
}
