//go:build !linux

package native

import (
	"errors"
	"fmt"

	"github.com/flynnhost/flynn/host/sandbox/driver"
)

// Driver makes native sandboxes, on Linux.
type Driver struct {
	driver.Driver
	driver.Locator
}

// New returns an error that wraps errors.ErrUnsupported.
func New(Config) (*Driver, error) {
	return nil, fmt.Errorf("native sandboxes need Linux: use an engine: %w", errors.ErrUnsupported)
}

// Close does nothing.
func (*Driver) Close() error { return nil }
