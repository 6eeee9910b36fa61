// Package policy runs Wasm policies: it verifies, meters and compiles a module,
// keeps instances of it, swaps it while the host runs, and asks it.
//
// Start with New, Engine.Pin and Set. A policy that fails never loosens
// anything: a tool call is denied, a route falls to the configured agent for errors or to none. The
// contract with modules is package sdk/policy/abi. The package does not act on its answers, and keeps no log of them.
//
// A file goes through load.go: package meter rewrites it so that it stops by itself, package verify checks that with code of its
// own, wazero compiles it, and image.go takes the first state of its instances. A decision goes through set.go (the chain),
// frame.go (facts to bytes), pool.go (an instance), instance.go (the metered call) and answer.go (bytes to a verdict). What a module can
// call is in imports.go, hostcalls.go and wasi.go; rego.go, regoinput.go and regoimports.go do the same for modules of OPA's compiler.
// engine.go, slot.go and watch.go change the chain while it is asked; proof.go, trial.go and rollback.go say what comes into force and
// stays, scope.go where it is asked. blockCounts.go counts the blocks that run, and inspect.go looks at a module without running it.
// replay.go asks a recorded decision again, kept.go bounds what is recorded, and shadow.go asks beside the chain.
//
// The same question gets the same answer for the same fuel. Tests hold that by compiler and interpreter, of new and used instances; that
// another kind of processor answers alike holds by construction: floats have no bits of a machine's own (package meter), clock and
// random numbers are the frame's, there are no threads, and what host calls cost depends on their arguments alone.
//
// An instance is in one goroutine's hands at a time, and a module lives as long as some chain that holds it: the last Release closes its
// instances, then its code. Nothing is left to finalizers.
package policy

import (
	"encoding/json"
	"time"

	"github.com/flynnhost/flynn/host/message"
)

// Facts are what both kinds of decision know.
type Facts struct {
	Message message.Message
	Role    string   // owner, member, guest
	Door    string   // channel, web, terminal
	Labels  []string // provenance labels of the session
	Now     time.Time
	Seed    int64
	Used    Usage
}

// Usage is what a session has used so far. That of a message that is being routed is of the session that it would continue
// with the static table's candidate.
type Usage struct {
	Turns  int
	Tokens int64
	Cost   int64 // millionths of a dollar
	Age    time.Duration
}

// RouteFacts are the facts of a routing decision.
type RouteFacts struct {
	Facts
	Candidate string   // agent by the static table, or ""
	Agents    []string // agents that may be chosen
}

// ToolFacts are the facts of a tool decision.
type ToolFacts struct {
	Facts
	Agent       string
	Session     string
	Tool        string
	Effect      string
	Args        json.RawMessage // canonical
	Sandboxed   bool
	CallsInTurn int
}

// RouteAnswer is the outcome of the chain of route policies.
type RouteAnswer struct {
	Decided bool   // some policy did not abstain, or failed
	Agent   string // "" with Decided: drop
	Policy  string // who decided
	Reason  string
	Failed  bool // decided by a failure
}

// Restrictions is what the tool policies demand, joined. The zero value restricts nothing; joining only adds.
type Restrictions struct {
	Deny      bool
	Ask       bool
	Sandbox   bool
	Sandboxes []string // names demanded, "" for the session's own; two that differ deny
	Reasons   []string // "policy: reason", in chain order
}

// Record is one asked policy with everything needed to ask it again.
type Record struct {
	Policy string
	Digest string // of module, data, limits and meter version
	File   string // SHA-256 of the module's file
	Kind   string // route or tool
	Frame  []byte
	Calls  []HostCall
	Text   string          // the whole text, when the frame has only its beginning
	Args   json.RawMessage // of a tool decision
	Raw    int64           // the module's answer
	Rule   uint32          // the reason number that the module gave
	Answer string
	Reason string
	Error  string // class and text, when it failed
	Fuel   int64
	Took   time.Duration
}

// HostCall is one import that the module called, with its answer.
type HostCall struct {
	Name string `json:"name"`
	Args []byte `json:"args,omitempty"`
	Ret  int32  `json:"ret"`
	Data []byte `json:"data,omitempty"`
	Sum  string `json:"sum,omitempty"` // SHA-256 of what TrimCalls has cut
}
