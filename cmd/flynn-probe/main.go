//go:build linux

// Command flynn-probe makes the attacks of a sandbox check that a shell cannot make. People never run it by
// hand: package host/sandbox/selftest writes it into a workspace and runs it as the workload.
//
// It is a program of its own rather than a mode of flynn-sandboxd, so that the supervisor, which every container has,
// stays small; this one is only present during a check.
//
// The answer is one line on stdout: "held: WHY" when the sandbox refused, "breach: WHAT" when it did not. No answer is
// a failure of the probe. No attack does damage where it succeeds, and the probe sends no packet unless the only
// network interface is the loopback, or peer has shown that nothing passes the others.
package main

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

func main() {
	if len(os.Args) < 2 {
		fail(errors.New("needs the name of a probe"))
	}
	try, known := probes()[os.Args[1]]
	if !known {
		fail(fmt.Errorf("no probe %q", os.Args[1]))
	}
	a, err := try(os.Args[2:])
	if err != nil {
		fail(err)
	}
	fmt.Println(a)
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "flynn-probe:", err)
	os.Exit(1)
}

// probe makes one attack; its error means that the attack could not be made.
type probe func(args []string) (answer, error)

func probes() map[string]probe {
	return map[string]probe{
		"interfaces": interfaces, "peer": peer, "connect": connect, "mapped": mapped, "http": fetch, "redirect": redirected, "ask": ask, "ping": ping,
		"socket": openSocket, "sockets": findSockets, "abstract": findAbstract,
		"call": call, "setuid": setuid, "allocate": allocate, "leave": leave, "left": left,
		"serve": serve, "wait": wait, "exit": exit,
	}
}

// answer is the result of one attack.
type answer struct {
	breached bool
	what     string
}

func (a answer) String() string {
	if a.breached {
		return "breach: " + a.what
	}
	return "held: " + a.what
}

func held(format string, args ...any) answer { return answer{what: fmt.Sprintf(format, args...)} }

func breach(format string, args ...any) answer {
	return answer{breached: true, what: fmt.Sprintf(format, args...)}
}

// judge treats a refusal of permission as held. Any other error comes from after the permission check: the kernel was
// willing and only rejected the deliberately useless arguments.
func judge(what string, err error) answer {
	switch {
	case err == nil:
		return breach("%s succeeded", what)
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES), errors.Is(err, unix.ENOSYS):
		return held("%s: %v", what, err)
	}
	return breach("%s was let through: %v", what, err)
}
