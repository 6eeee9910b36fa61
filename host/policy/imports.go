package policy

import (
	"context"
	"strings"

	"github.com/flynnhost/flynn/host/policy/meter"
	"github.com/flynnhost/flynn/sdk/policy/abi"
	"github.com/tetratelabs/wazero/api"
)

// hostFunction is one function that modules may import.
type hostFunction struct {
	module, name    string
	params, results []api.ValueType
	call            api.GoModuleFunction
}

const wasi = "wasi_snapshot_preview1"

// hostFunctions returns every function that a module can call: those of the contract, those that language runtimes need, and those of the meter.
func hostFunctions() []hostFunction {
	list := []hostFunction{
		flynnFunction("get", "iiii>i", hostGet),
		flynnFunction("arg", "iiii>i", hostArg),
		flynnFunction("arg_kind", "ii>i", hostArgKind),
		flynnFunction("data", "iiii>i", hostData),
		flynnFunction("match", "iiiii>i", hostMatch),
		flynnFunction("trace", "ii>", hostTrace),
		flynnFunction("log", "iii>", hostLog),

		function(meter.ImportModule, meter.TickImport, ">", hostTick),
		function(meter.ImportModule, meter.DeepImport, ">", hostDeep),
		function(meter.ImportModule, meter.GrowImport, "i>i", hostGrow),
	}
	return append(append(list, wasiFunctions()...), opaFunctions()...)
}

// function returns a host function with a signature like "il>i": i is i32, l is i64.
func function(module, name, signature string, call func(*instance, []uint64)) hostFunction {
	params, results, _ := strings.Cut(signature, ">")
	return hostFunction{module, name, valueTypes(params), valueTypes(results),
		api.GoModuleFunc(func(ctx context.Context, _ api.Module, stack []uint64) { call(ctx.(*instance), stack) })}
}

// flynnFunction is function for one whose calls are counted.
func flynnFunction(name, signature string, call func(*instance, []uint64)) hostFunction {
	return function(abi.Module, name, signature, func(i *instance, stack []uint64) {
		i.countCall()
		call(i, stack)
	})
}

func valueTypes(letters string) []api.ValueType {
	types := make([]api.ValueType, len(letters))
	for i, l := range letters {
		types[i] = map[rune]api.ValueType{'i': api.ValueTypeI32, 'l': api.ValueTypeI64}[l]
	}
	return types
}

// signature returns the function's type as package meter writes it.
func (f hostFunction) signature() meter.Signature {
	names := func(types []api.ValueType) string {
		list := make([]string, len(types))
		for i, t := range types {
			list[i] = api.ValueTypeName(t)
		}
		return strings.Join(list, ", ")
	}
	s := "(" + names(f.params) + ")"
	if len(f.results) > 0 {
		s += " -> " + names(f.results)
	}
	return meter.Signature(s)
}
