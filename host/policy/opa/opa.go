// Package opa is the contract between Flynn and policies in Rego, without the engine that runs them.
//
// OPA's compiler compiles a policy in Rego to a module with OPA's own Wasm ABI. Package host/policy gives such a module its facts as
// the document input and its configured data as the document data, and reads the answer from one of two rules:
//
//	data.flynn.route   {"agent": NAME}, {"drop": true} or {"abstain": true}, each with "reason" and "rule" if it likes; undefined
//	                   abstains
//	data.flynn.tool    an object, or a set or array of objects, with "deny", "ask", "sandbox", "reason" and "rule"; undefined or
//	                   empty restricts nothing
//
// facts.go is the table of the facts in input, answer.go reads the answers, builtin.go has the few functions that the
// compiler leaves to the host. The compiler (package host/policy/rego) checks sources with the same tables, so that a misspelt fact
// or a missing function is an error of the build.
//
// The package neither runs a module nor imports OPA.
package opa

// The two entrypoints: the rules route and tool of package flynn.
const (
	EntrypointRoute = "flynn/route"
	EntrypointTool  = "flynn/tool"
)

// Package is the Rego package of the entrypoints; the configured data cannot have a key of that name.
const Package = "flynn"

// Module is the module name of the imports.
const Module = "env"
