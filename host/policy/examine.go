package policy

import (
	"fmt"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/flynnhost/flynn/host/policy/meter"
)

// Examine holds a policy's file against the contract as loading it does first. It compiles nothing and runs nothing, and so
// cannot tell whether the rest would succeed. hooks are the kinds of decision that the module exports a function for.
func Examine(s Source) (hooks []string, err error) {
	defer func() {
		if p := recover(); p != nil { // see obtain
			err = fmt.Errorf("panic while reading the module: %v\n%s", p, debug.Stack())
		}
	}()
	wasm, err := readModule(s.Path)
	if err != nil {
		return nil, err
	}
	m := &Module{source: s, limits: s.Limits.withDefaults(), pure: s.isolation() == IsolationPure}
	out, err := meter.Rewrite(wasm, meter.Options{MaxPages: uint32(m.limits.Memory >> 16)})
	if err != nil {
		return nil, err
	}
	m.info, m.rego = out.Info, dialectOf(out.Info, wasm)
	for name := range m.info.Exports {
		if kind := strings.TrimPrefix(name, "flynn_"); kind == KindRoute || kind == KindTool {
			hooks = append(hooks, kind)
		}
	}
	slices.Sort(hooks)
	return hooks, m.checkContract()
}
