package image

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/flynnhost/flynn/host/sandbox/machine"
)

// packager is a package manager.
type packager struct {
	name   string
	paths  []string // where to find it in an image
	script string   // installs its arguments
}

// packagers are the supported package managers. Settings are passed on the command line, so that the image does not keep them. Without
// Pattern-Only, apt treats an unknown name with a dot as an expression and installs all matching packages.
func packagers() []packager {
	return []packager{
		{"apt", []string{"/usr/bin/apt-get"}, `set -e
export DEBIAN_FRONTEND=noninteractive
apt-get -q update
apt-get -q -o APT::Cmd::Pattern-Only=true install -y --no-install-recommends "$@"
apt-get -q clean
rm -rf /var/lib/apt/lists/*`},
		{"apk", []string{"/sbin/apk", "/usr/bin/apk", "/bin/apk"}, `exec apk add --no-cache "$@"`},
	}
}

// install returns an image with the packages added to another one.
func (b *Builder) install(ctx context.Context, p Plan, image string) (id string, err error) {
	manager, err := b.packagerOf(ctx, p.recipe.Image, image)
	if err != nil {
		return "", err
	}
	names := strings.Join(p.recipe.Packages, " ")
	machine.Notice(ctx, fmt.Sprintf("installing packages with %s: %s", manager.name, names))
	// One stream: engines do not keep the order of two, and the last lines are reported.
	argv := append([]string{"/bin/sh", "-c", "exec 2>&1\n" + manager.script, "sh"}, p.recipe.Packages...)
	w := Work{Image: image, Argv: argv, Network: p.recipe.network()}
	err = b.work(ctx, w, func(container string) error {
		out := &Output{Tell: func(line string) { machine.Notice(ctx, "installing packages: "+line) }}
		code, err := b.engine.RunWork(ctx, container, out)
		if err == nil && code != 0 {
			err = fmt.Errorf("exit code %d", code)
		}
		if err != nil {
			return &StepError{Image: "on " + p.recipe.Image, Step: manager.name + " install " + names, Output: out.Last(), Err: err}
		}
		id, err = b.engine.Commit(ctx, container, b.labels(p))
		return err
	})
	return id, err
}

// packagerOf finds the package manager of an image, without running anything of the image.
func (b *Builder) packagerOf(ctx context.Context, name, image string) (found packager, err error) {
	w := Work{Image: image, Argv: []string{"/bin/true"}, Network: "none"}
	err = b.work(ctx, w, func(container string) error {
		for _, m := range packagers() {
			for _, path := range m.paths {
				has, err := b.engine.HasPath(ctx, container, path)
				if err != nil || has {
					found = m
					return err
				}
			}
		}
		return fmt.Errorf("packages cannot be installed on %s: it has neither apt-get nor apk: choose another image or a dockerfile", name)
	})
	return found, err
}

// network returns the network of builds.
func (r Recipe) network() string { return cmp.Or(r.Network, "bridge") }
