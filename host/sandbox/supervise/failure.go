//go:build linux

package supervise

import (
	"errors"

	"golang.org/x/sys/unix"

	"github.com/flynnhost/flynn/host/sandbox/frame"
)

// failure is an error with a class that the host distinguishes.
type failure struct {
	code    frame.Code
	message string
}

func (f failure) Error() string { return f.message }

func fail(code frame.Code, message string) error { return failure{code, message} }

// describe returns the wire form of an error, classified by the kernel's error number.
func describe(err error) frame.FailBody {
	var f failure
	if errors.As(err, &f) {
		return frame.FailBody{Code: f.code, Message: f.message}
	}
	return frame.FailBody{Code: classify(err), Message: err.Error()}
}

func classify(err error) frame.Code {
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR):
		return frame.NotFound
	case errors.Is(err, unix.EXDEV), errors.Is(err, unix.ELOOP):
		return frame.Outside
	case errors.Is(err, unix.ENXIO), errors.Is(err, unix.EISDIR):
		return frame.NotRegular
	case errors.Is(err, unix.EFBIG):
		return frame.TooLarge
	}
	return frame.Internal
}
