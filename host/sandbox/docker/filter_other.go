//go:build !linux

package docker

import "errors"

// dockersFilter is not there: the containers of this system's Podman are in a virtual machine, which has no files of this machine's.
func dockersFilter() ([]byte, error) { return nil, errors.ErrUnsupported }
