// Package selftest checks the confinement of a sandbox: it attacks one, on the owner's engine, with the owner's image and configuration,
// and reports which attacks it withstood.
//
// Start with Suite. Probes lists the attacks by the rows of the threat table, in files named after them. Each runs like the workload, and
// each has a negative control: a deliberately weakened container in which the same attack must succeed, because a probe that cannot fail
// proves nothing. After each probe a second session must still work.
//
// The row about a host that dies would need one that is killed, so only its part about a second host is tried here; the tests of package
// sandbox kill a host.
//
// The package changes nothing and knows nothing of agents. It sends no packets to others: probes that use foreign addresses run where there
// is only the loopback, and in their controls our own listener on that loopback has the address.
package selftest

import (
	"context"
	"fmt"
	"io/fs"
	"slices"

	"github.com/flynnhost/flynn/host/sandbox"
	"github.com/flynnhost/flynn/host/sandbox/docker"
	"github.com/flynnhost/flynn/host/sandbox/driver"
	"github.com/flynnhost/flynn/host/sandbox/machine"
	"github.com/flynnhost/flynn/host/sandbox/spec"
)

// Probe is one attack.
type Probe struct {
	Name string // "row/what"
	Row  string // of the threat table
	// Why says what an attacker would gain.
	Why string
	// Setting says what to change if the attack succeeds.
	Setting string
	// Run attacks. An error means that the attack could not be tried, which counts as a failure.
	Run func(ctx context.Context, s *Subject) (Finding, error)
	// Engine is whether the attack is on what Flynn does when a container engine fails, so that there must be one.
	Engine bool
	// Limit is the limit without which the attack succeeds, if some machines cannot hold it.
	Limit driver.Limit
	// Feature is the feature of the engine without which it succeeds, if not all have it.
	Feature driver.Feature
	// Control returns how to weaken a container so that the attack succeeds.
	Control func(s *Subject) Control
}

// Target is the part of a machine that probes use.
type Target interface {
	Exec(ctx context.Context, cmd machine.Command) (machine.Result, error)
	ReadFile(ctx context.Context, path string, offset, max int64) (data []byte, size int64, err error)
	WriteFile(ctx context.Context, path string, data []byte, perm fs.FileMode) error
}

// Subject is the attacked session and its environment.
type Subject struct {
	Target Target
	// Neighbour is another session on the same engine, which must not be affected.
	Neighbour *sandbox.Session
	// Proxied is a session of the same kind behind a proxy without a network, and with a bridge to a program that does nothing.
	Proxied Target
	Spec    spec.Spec
	// Peer is where the supervisor of Neighbour listens, if that is on a network that the subject has, too; otherwise "".
	Peer string
	// Dir is the subject's workspace on the host, NeighbourDir that of the other session.
	Dir, NeighbourDir string
	// Troubled is a separate host whose engine can be put in trouble.
	Troubled *troubled
	// Logged reports whether the last call of the suite's bridge was logged as allowed; nil if there is no log.
	Logged func() bool
	// Outside is a folder of the host that nothing inside may reach. It contains the file secret, the world-writable file decoy, and the
	// socket engine, which our own listener serves.
	Outside string
}

// secret is the content of the file of that name.
const secret = "flynn self-test secret"

// Control is a weak container, and what happens in it before the attack.
type Control struct {
	docker.Weakness
	Root bool // commands run as root instead of the workload's user
	// Setup is a script that root runs first, with the capabilities of the weakness.
	Setup string
	// Terminal gives commands a terminal.
	Terminal bool
	// Single uses the container for this control only, because the attack damages it.
	Single bool
	// Trusting uses a host that sets no deadlines for its engine.
	Trusting bool
}

// Status is the status of a result.
type Status string

// The statuses. Weak is what the configuration, or the design of sessions, allows a session to do to itself.
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

// allowed returns the finding for what the owner's configuration permits.
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
		endProbes(), outputProbes(), leakProbes(), sessionProbes(), troubleProbes(), snapshotProbes(),
	} {
		all = append(all, row...)
	}
	return all
}

// driverRows are the rows that a driver holds or not, whatever the host does.
var driverRows = []string{
	networkRow, metadataRow, "fork bomb", "memory bomb", "CPU and timer", "disk fill", "/proc, /sys", "engine socket", "namespaces", "special files",
	"setuid", "kernel keyring", "supervisor attack", "env leak", "cross-session", snapshotRow,
}

// OfDriver reports whether it is up to the driver that the attack of that name fails.
func OfDriver(name string) bool {
	return slices.ContainsFunc(Probes(), func(p Probe) bool { return p.Name == name && !p.Engine && slices.Contains(driverRows, p.Row) })
}

// ProbesOf returns those that can be tried on the sandboxes of a driver.
func ProbesOf(d driver.Driver) []Probe {
	if _, ok := d.(*docker.Driver); ok {
		return Probes()
	}
	return slices.DeleteFunc(Probes(), func(p Probe) bool { return p.Engine })
}
