package policy

import (
	"errors"
	"fmt"
)

// Class is the kind of a policy's failure.
type Class string

// The classes of failure. None of them ever loosens a decision.
const (
	ClassTrap     Class = "trap"     // the module trapped, exited or slept
	ClassFuel     Class = "fuel"     // out of fuel
	ClassDepth    Class = "depth"    // calls nested too deep
	ClassDeadline Class = "deadline" // out of wall time, or the caller gave up
	ClassMemory   Class = "memory"   // asked for more memory than allowed
	ClassCalls    Class = "calls"    // too many host calls
	ClassAnswer   Class = "answer"   // an answer outside the contract
	ClassAgent    Class = "agent"    // a route to an agent that may not be chosen
	ClassFacts    Class = "facts"    // the facts do not fit a frame
	ClassLoad     Class = "load"     // the module is not fit to run
	ClassBusy     Class = "busy"     // no instance became free in time
)

// Error is a failure of a policy.
type Error struct {
	Class Class
	Err   error
}

// Error returns "class: text", as records have failures.
func (e *Error) Error() string { return string(e.Class) + ": " + e.Err.Error() }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

func failf(c Class, format string, args ...any) *Error {
	return &Error{c, fmt.Errorf(format, args...)}
}

// asError returns err as an *Error, of class c unless it has a class already.
func asError(err error, c Class) *Error {
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	return &Error{c, err}
}
