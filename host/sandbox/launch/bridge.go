package launch

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/flynnhost/flynn/host/sandbox/driver"
	"github.com/flynnhost/flynn/host/sandbox/spec"
)

const (
	bridgeFolder = "/.flynn/bin"
	bridgePrefix = "bridges-"
)

// offerBridges adds the bridged commands to the container.
func (l *Launcher) offerBridges(o *launchSpec) {
	var names []string
	for _, b := range o.spec.Bridges {
		names = append(names, b.Name)
	}
	if o.spec.Helpers {
		names = append(names, spec.HelperCommand)
	}
	if len(names) == 0 {
		return
	}
	folder, err := linkBridges(l.config.Run, names)
	if err != nil {
		l.log.Error("cannot offer bridges", "error", err)
		return
	}
	o.hello.Bridge = true
	o.container.Mounts = append(o.container.Mounts, driver.Mount{Source: folder, Target: bridgeFolder, ReadOnly: true})
}

// linkBridges makes a folder with a link to the supervisor for each command. The folder's name depends on its content.
func linkBridges(run string, names []string) (string, error) {
	slices.Sort(names)
	folder := filepath.Join(run, bridgePrefix+spec.Short(names...))
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return "", err
	}
	for _, name := range names {
		if err := os.Symlink(supervisorPath, filepath.Join(folder, name)); err != nil && !errors.Is(err, fs.ErrExist) {
			return "", err
		}
	}
	return folder, nil
}
