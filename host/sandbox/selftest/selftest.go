// Package selftest shows what a sandbox withstands: it attacks one, on the owner's own engine, with the owner's image
// and configuration, and says what held.
//
// Start with Suite. Probes lists the attacks, row by row of the threat table in the files named after the rows. Each
// runs as the workload would, and each has a negative control: a container weakened on purpose in which the same
// attack must succeed, because a probe that cannot fail shows nothing. After each the second session must be healthy.
//
// The row of a host that dies needs one that is killed, so that only its half about a second host is tried here; the tests of package
// sandbox kill the first.
//
// The package changes nothing and knows nothing of agents. No packet leaves: what tries addresses of strangers does so
// where there is only the loopback, and in the controls the stranger is a listener of our own on that loopback.
package selftest

import (
	"context"
	"fmt"
	"io/fs"

	"github.com/flynnhost/flynn/host/sandbox"
	"github.com/flynnhost/flynn/host/sandbox/docker"
	"github.com/flynnhost/flynn/host/sandbox/machine"
	"github.com/flynnhost/flynn/host/sandbox/spec"
)

// Probe is one attack.
type Probe struct {
	Name string // "row/what"
	Row  string // of the threat table
	// Why says what an attacker would have from it.
	Why string
	// Setting is what to change if it does not hold.
	Setting string
	// Run attacks. Its error means that the attack could not be tried, which counts as a failure.
	Run func(ctx context.Context, s *Subject) (Finding, error)
	// Control says how to weaken a container so that the attack succeeds.
	Control func(s *Subject) Control
}

// Target is the part of a machine that probes use.
type Target interface {
	Exec(ctx context.Context, cmd machine.Command) (machine.Result, error)
	ReadFile(ctx context.Context, path string, offset, max int64) (data []byte, size int64, err error)
	WriteFile(ctx context.Context, path string, data []byte, perm fs.FileMode) error
}

// Subject is what is attacked, and what stands around it.
type Subject struct {
	Target Target
	// Neighbour is another session on the same engine, which must not notice.
	Neighbour *sandbox.Session
	// Proxied is a session of the same kind behind a proxy that leads nowhere, and with a bridge to nothing.
	Proxied Target
	Spec    spec.Spec
	// Dir is the subject's workspace on the host, NeighbourDir the other session's.
	Dir, NeighbourDir string
	// Troubled is a host of its own, whose engine can be put in trouble.
	Troubled *troubled
	// Logged reports whether the log has the latest call of the suite's bridge as allowed; nil where there is no log.
	Logged func() bool
	// Outside is a folder of the host that nothing inside may reach. It holds the file secret, the file decoy that
	// everybody may write, and the socket engine, which a listener of ours answers.
	Outside string
}

// secret is what the file of that name says.
const secret = "flynn self-test secret"

// Control is a weak container and what happens in it before the attack.
type Control struct {
	docker.Weakness
	Root bool // commands run as root instead of the workload's user
	// Setup is a script that root runs first, with the capabilities that the weakness grants.
	Setup string
	// Terminal gives commands a terminal.
	Terminal bool
	// Single is a container for this control alone, because the attack spoils it.
	Single bool
	// Trusting has sessions made by a host that sets its engine no deadline.
	Trusting bool
}

// Status is a result.
type Status string

// The statuses. Weak is what the configuration, or the way sessions work, allows to a session for itself.
const (
	Pass Status = "pass"
	Weak Status = "weak"
	Fail Status = "fail"
)

// Finding is the result of one attack.
type Finding struct {
	Status Status
	Detail string
}

func held(format string, args ...any) Finding {
	return Finding{Pass, fmt.Sprintf(format, args...)}
}

func breached(format string, args ...any) Finding {
	return Finding{Fail, fmt.Sprintf(format, args...)}
}

// allowed is for what the owner's configuration permits.
func allowed(format string, args ...any) Finding {
	return Finding{Weak, fmt.Sprintf(format, args...)}
}

// Probes returns every attack in the order of the threat table.
func Probes() []Probe {
	var all []Probe
	for _, row := range [][]Probe{
		networkProbes(), metadataProbes(), proxyProbes(), bridgeProbes(), bombProbes(), memoryProbes(), diskProbes(), workspaceProbes(), archiveProbes(),
		kernelFileProbes(), engineProbes(),
		namespaceProbes(), linkProbes(), specialFileProbes(), privilegeProbes(), keyringProbes(), supervisorProbes(),
		endProbes(), outputProbes(), leakProbes(), sessionProbes(), troubleProbes(),
	} {
		all = append(all, row...)
	}
	return all
}
