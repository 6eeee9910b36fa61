// Command flynn-release makes the files of a release: archives, Debian and RPM packages, container images, a Homebrew formula, an install
// script, an SBOM, an index for flynn upgrade, and the checksums of all.
//
//	flynn-release [-out dist] [-version v1.2.3] [-targets linux/amd64,...]
//
// Start with release.make, which lists the steps. It runs in a checkout of Flynn, whose commit decides the contents: the same commit and
// compilers give the same bytes, in any folder. The program is not part of a release itself, publishes nothing, and uses no network beyond that
// of the go command.
package main

import (
	"compress/gzip"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
)

// targets are the platforms of a release.
const targets = "linux/amd64,linux/arm64,darwin/amd64,darwin/arm64"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "flynn-release:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stderr io.Writer) error {
	flags := flag.NewFlagSet("flynn-release", flag.ContinueOnError)
	flags.SetOutput(stderr)
	out := flags.String("out", "dist", "write the release into `FOLDER`, in the place of an earlier one")
	version := flags.String("version", "", "the version, such as v1.2.3 (default: the tag of the commit)")
	platforms := flags.String("targets", targets, "the platforms, as a comma-separated `LIST` of OS/ARCH")
	certificates := flags.String("ca", "/etc/ssl/certs/ca-certificates.crt", "take the authorities of the container image from `FILE`")
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		return nil
	} else if err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	if err := setEnv(); err != nil {
		return err
	}
	r, err := newRelease(ctx, *out, *version, strings.Split(*platforms, ","))
	if err != nil {
		return err
	}
	r.certificates, r.log = *certificates, stderr
	return r.make(ctx)
}

// newRelease finds out what is to be made.
func newRelease(ctx context.Context, out, version string, platforms []string) (*release, error) {
	r := &release{level: gzip.DefaultCompression}
	for _, p := range platforms {
		goos, arch, ok := strings.Cut(p, "/")
		if !ok || goos == "" || arch == "" || strings.ContainsAny(p, " \\.") {
			return nil, fmt.Errorf("target %q: write OS/ARCH, such as linux/amd64", p)
		}
		r.targets = append(r.targets, target{goos, arch})
	}
	root, err := output(ctx, ".", nil, "go", "list", "-m", "-f", "{{.Dir}}")
	if err != nil {
		return nil, err
	}
	r.source = strings.TrimSpace(root)
	if r.out, err = filepath.Abs(out); err != nil {
		return nil, err
	}
	r.stamp, err = readStamp(ctx, r.source, version)
	return r, err
}
