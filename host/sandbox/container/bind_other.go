//go:build !linux

package container

import (
	"errors"
	"net"
)

// bind returns an error: engines run in a virtual machine.
func bind(string) (*net.UnixListener, error) { return nil, errors.ErrUnsupported }
