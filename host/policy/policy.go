// Package policy runs Wasm policies: it verifies, meters and compiles a module,
// keeps instances of it, swaps it while the host runs, and asks it.
//
// Start with New, Engine.Pin and Set. A policy that fails never loosens
// anything: a tool call is denied, a route falls to the configured agent for errors or to none. The
// contract with modules is package sdk/policy/abi. The package does not act on its answers, and keeps no log of them.
//
// load.go loads a file: package meter rewrites it so that it stops by itself, package verify checks that with separate
// code, wazero compiles it, and image.go takes the first state of its instances. A decision goes through set.go (the chain),
// frame.go (facts to bytes), pool.go (an instance), instance.go (the metered call) and answer.go (bytes to a decision). The functions that
// a module can call are in imports.go, hostcalls.go and wasi.go; rego.go, regoinput.go and regoimports.go do the same for modules of OPA's compiler.
// engine.go, slot.go and watch.go change the chain while it is asked; proof.go, trial.go and rollback.go decide which module is in
// force, scope.go where a policy is asked. blockcounts.go counts the blocks that run, and inspect.go examines a module without running it.
// replay.go repeats a recorded decision, trimcalls.go bounds what is recorded, and shadow.go asks policies that have no effect.
//
// The same question gets the same answer for the same fuel. Tests check this with the compiler and the interpreter, and with new and used
// instances. It holds on other processors by construction: floats have no machine-specific bits (package meter), clock and
// random numbers come from the frame, there are no threads, and the cost of a host call depends on its arguments alone.
//
// One goroutine uses an instance at a time. A module lives as long as a chain holds it: the last Release closes its
// instances, then its code. There are no finalizers.
package policy

import (
	"encoding/json"
	"time"

	"github.com/flynnhost/flynn/host/message"
)

// Facts are the facts of both kinds of decision.
type Facts struct {
	Message message.Message
	Role    string   // owner, member, guest
	Door    string   // channel, web, terminal
	Labels  []string // provenance labels of the session
	Now     time.Time
	Seed    int64
	Used    Usage
}

// Usage is what a session has used so far. For a message that is being routed it is the session with the static table's candidate.
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
	Decided bool   // a policy chose an agent, dropped the message, or failed
	Agent   string // "" with Decided: drop
	Policy  string // that decided
	Reason  string
	Failed  bool // decided by a failure
}

// Restrictions are the joined restrictions of the tool policies. The zero value restricts nothing; joining only adds.
type Restrictions struct {
	Deny      bool
	Ask       bool
	Sandbox   bool
	Sandboxes []string // names demanded, "" for the session's own; two that differ deny
	Reasons   []string // "policy: reason", in chain order
}

// Record is the decision of one policy, with everything needed to repeat it.
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

// HostCall is one call of a host function by the module, with its result.
type HostCall struct {
	Name string `json:"name"`
	Args []byte `json:"args,omitempty"`
	Ret  int32  `json:"ret"`
	Data []byte `json:"data,omitempty"`
	Sum  string `json:"sum,omitempty"` // SHA-256 of what TrimCalls has cut
}
