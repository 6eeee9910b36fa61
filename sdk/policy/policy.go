// Package policy is the Go SDK for Flynn's policies: small WebAssembly modules that
// decide which agent answers a message, and how a tool call is restricted.
//
// A policy registers its hooks and is built as a reactor module:
//
//	package main
//
//	import "github.com/flynnhost/flynn/sdk/policy"
//
//	func init() {
//		policy.Route(func(f policy.RouteFacts) policy.RouteAnswer {
//			if f.Role() == "owner" {
//				return policy.RouteAnswer{Agent: "coder"}
//			}
//			return policy.RouteAnswer{} // the next policy decides
//		})
//	}
//
//	func main() {}
//
//	GOOS=wasip1 GOARCH=wasm go build -buildmode=c-shared -trimpath -o policy.wasm .
//
// or simply `flynn policy dev build`. Start with Route, Tool, Facts, RouteAnswer and Restriction.
//
// Strings returned by facts are views of the host's frame, without a copy. They are valid until the hook returns; a policy that keeps one
// longer must strings.Clone it, and a policy that keeps anything at all is stateful, which the host detects and reports.
//
// The package imports neither fmt, encoding/json nor os, because each of them adds a megabyte and a millisecond, and it allocates nothing
// on the usual path through a hook. It also compiles natively, so that a policy can be unit tested with plain `go test`: see package
// policytest.
//
// The contract with the host is package abi.
package policy

// RouteFunc decides which agent answers a message.
type RouteFunc func(RouteFacts) RouteAnswer

// ToolFunc decides how one tool call is restricted.
type ToolFunc func(ToolFacts) Restriction

// hooks is the module's only registration. A policy is one instance with one thread, and the exports have no receiver, so it must be a
// package variable; only init functions write it.
var hooks struct {
	route RouteFunc
	tool  ToolFunc
}

// Route registers the hook for routing decisions. Call it once, from an init function.
func Route(f RouteFunc) {
	if hooks.route != nil {
		panic("policy: Route is registered twice")
	}
	hooks.route = f
}

// Tool registers the hook for tool decisions. Call it once, from an init function.
func Tool(f ToolFunc) {
	if hooks.tool != nil {
		panic("policy: Tool is registered twice")
	}
	hooks.tool = f
}
