package main

import (
	"errors"
	"fmt"

	"github.com/flynnhost/flynn/host/config"
)

// Exit codes of every subcommand.
const (
	exitOK      = 0
	exitFailure = 1
	exitUsage   = 2
	exitConfig  = 3
	exitChanged = 4
	exitUnsound = 5
)

// Exit codes of flynn sandbox exec beside the command's own, those of timeout(1).
const (
	exitTimedOut = 124
	exitNotRun   = 125
	exitSignal   = 128 // and the number of the signal
)

const exitCodes = `Exit codes: 0 success, 1 failure, 2 wrong usage, 3 errors in the configuration,
4 a replay found changes and was told to fail on them, 5 flynn doctor found something. The exit code of sandbox exec is that of the command.`

// usageError is a mistake on the command line.
type usageError struct{ err error }

func (e usageError) Error() string { return e.err.Error() }
func (e usageError) Unwrap() error { return e.err }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// reported wraps an error whose details the command has printed itself: it sets the exit code and nothing more.
type reported struct{ err error }

func (e reported) Error() string { return e.err.Error() }
func (e reported) Unwrap() error { return e.err }

// exited wraps an error with the exit code that it shall have.
type exited struct {
	error
	code int
}

func (e exited) Unwrap() error { return e.error }

// errChanged is the error of a replay that was told to fail on changes.
var errChanged = errors.New("recorded decisions would change")

func exitCode(err error) int {
	var own exited
	var usage usageError
	var bad config.Errors
	switch {
	case errors.As(err, &own):
		return own.code
	case errors.Is(err, errChanged):
		return exitChanged
	case err == nil:
		return exitOK
	case errors.As(err, &usage):
		return exitUsage
	case errors.As(err, &bad):
		return exitConfig
	}
	return exitFailure
}

// asReported marks an error that has been printed; nil stays nil.
func asReported(err error) error {
	if err == nil {
		return nil
	}
	return reported{err}
}
