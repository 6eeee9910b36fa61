package policy

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/flynnhost/flynn/host/policy/opa"
)

// Costs of a builtin of OPA's that runs on the host, in units of fuel for each byte of its arguments, and the bounds of its arguments and
// result.
const (
	costBuiltinByte  = 16
	maxBuiltinText   = 64 << 10
	maxBuiltinParams = 4
)

// opaFunctions returns the functions that modules with OPA's ABI import.
func opaFunctions() []hostFunction {
	list := []hostFunction{
		function(opa.Module, "opa_abort", "i>", func(i *instance, stack []uint64) {
			class := ClassTrap
			if i.refused {
				class = ClassMemory
			}
			i.abort(failf(class, "%s", i.words(stack[0])))
		}),
		function(opa.Module, "opa_println", "i>", func(i *instance, stack []uint64) {
			i.countCall()
			i.print([]byte(i.words(stack[0]) + "\n"))
		}),
	}
	for n, name := range [maxBuiltinParams + 1]string{"opa_builtin0", "opa_builtin1", "opa_builtin2", "opa_builtin3", "opa_builtin4"} {
		signature := "ii" + "iiii"[:n] + ">i"
		list = append(list, function(opa.Module, name, signature, func(i *instance, stack []uint64) {
			stack[0] = i.builtin(uint32(stack[0]), stack[2:2+n])
		}))
	}
	return list
}

// words returns a text of the module.
func (i *instance) words(at uint64) string {
	text, ok := i.cString(uint64(uint32(at)), maxLog) // the upper half of a parameter is undefined
	if !ok {
		return "a text that cannot be read"
	}
	return string(bytes.ToValidUTF8(text, []byte("?")))
}

// builtin runs a builtin on the host. Its arguments and its result are passed as JSON; 0 is undefined.
func (i *instance) builtin(id uint32, params []uint64) uint64 {
	i.countCall()
	if i.rego == nil || !i.rego.evaluating {
		i.abort(failf(ClassTrap, "a builtin of OPA's is called outside of an evaluation"))
	}
	i.rego.evaluating = false
	b, ok := i.module.rego.builtins[id]
	if !ok || b.Arity != len(params) {
		i.abort(failf(ClassTrap, "the builtin %d with %d parameters, which the module has not announced", id, len(params)))
	}
	s := &steps{i: i}
	args, text := i.builtinArgs(s, params)
	result, err := i.answerBuiltin(&b, args)
	if errors.Is(err, opa.ErrUndefined) {
		i.rego.evaluating = true
		i.note(HostCall{Name: b.Name, Args: text, Ret: absent})
		return 0
	}
	if err != nil {
		i.abort(failf(ClassTrap, "%s: %w", b.Name, err))
	}
	out, err := json.Marshal(result)
	if err != nil || len(out) > maxBuiltinText {
		i.abort(failf(ClassTrap, "%s gives %d bytes, at most %d are allowed", b.Name, len(out), maxBuiltinText))
	}
	i.note(HostCall{Name: b.Name, Args: text, Ret: int32(len(out)), Data: out})
	value := s.parse(out)
	if s.err != nil {
		i.abort(s.err)
	}
	i.rego.evaluating = true
	return value
}

// answerBuiltin returns the builtin's result.
func (i *instance) answerBuiltin(b *opa.Builtin, args []any) (any, error) {
	if b.Call != nil {
		return b.Call(args)
	}
	pattern, ok1 := args[0].(string)
	s, ok2 := args[1].(string)
	if !ok1 || !ok2 {
		return nil, opa.ErrUndefined
	}
	switch i.match(b.Match, pattern, s) {
	case matchYes:
		return true, nil
	case matchNo:
		return false, nil
	}
	return nil, fmt.Errorf("the pattern %.80q is none", pattern)
}

// builtinArgs reads the arguments, and pays for the builtin in advance.
func (i *instance) builtinArgs(s *steps, params []uint64) (args []any, text []byte) {
	for k, p := range params {
		one := s.dump(uint64(uint32(p)), maxBuiltinText)
		if s.err != nil {
			i.abort(s.err)
		}
		if k > 0 {
			text = append(text, ',')
		}
		text = append(text, one...)
	}
	i.pay(int64(len(text)) * costBuiltinByte)
	i.checkClock()
	d := json.NewDecoder(bytes.NewReader(append(append([]byte{'['}, text...), ']')))
	d.UseNumber()
	if err := d.Decode(&args); err != nil || len(args) != len(params) {
		i.abort(failf(ClassTrap, "the arguments of a builtin are no JSON"))
	}
	return args, text
}
