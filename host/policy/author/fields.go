package author

import (
	"sync"

	"github.com/flynnhost/flynn/host/policy/opa"
	"github.com/flynnhost/flynn/sdk/policy/abi"
)

// fieldNames are the facts' names as case files write them; a test compares them with package abi.
var fieldNames = sync.OnceValue(func() map[abi.Field]string {
	names := map[abi.Field]string{abi.OutAgent: "out_agent", abi.OutSandbox: "out_sandbox", abi.OutReason: "out_reason"}
	for _, f := range append(opa.RouteFacts(), opa.ToolFacts()...) {
		names[f.Field] = f.Name
	}
	return names
})
