package policy

import (
	"strings"
	"testing"

	w "github.com/flynnhost/flynn/host/policy/meter/wasmtest"
)

// fakeOPA is a module with OPA's ABI whose functions are what the test makes of them. builtin is the import opa_builtin2.
func fakeOPA(build func(builtin uint32) map[string][]byte) []byte {
	m := w.New()
	bodies := build(m.Import("env", "opa_builtin2", "iiii>i"))
	m.Memory(2, -1)
	m.ExportGlobal("opa_wasm_abi_version", m.Global(1))
	m.Data(1000, []byte("{\"flynn/route\":0}\x00"))
	m.Data(1100, []byte("{\"sprintf\":0}\x00"))
	m.Data(1200, []byte("[]\x00"))
	for name, f := range map[string]struct {
		signature string
		body      []byte
	}{
		"opa_malloc": {"i>i", w.I32(4096)}, "opa_heap_ptr_get": {">i", w.I32(4096)}, "opa_heap_ptr_set": {"i>", nil},
		"opa_json_parse": {"ii>i", w.I32(3)}, "opa_json_dump": {"i>i", w.LocalGet(0)},
		"opa_eval_ctx_new": {">i", w.I32(8)}, "opa_eval_ctx_set_data": {"ii>", nil}, "opa_eval_ctx_set_input": {"ii>", nil},
		"opa_eval_ctx_set_entrypoint": {"ii>", nil}, "opa_eval_ctx_get_result": {"i>i", w.I32(1200)},
		"eval": {"i>i", w.I32(0)}, "builtins": {">i", w.I32(1100)}, "entrypoints": {">i", w.I32(1000)},
	} {
		if body, ok := bodies[name]; ok {
			f.body = body
		}
		m.Export(name, m.Func(f.signature, "", f.body))
	}
	return m.Bytes()
}

// A module that has OPA's functions need not be OPA's: whatever they do, the decision fails closed and the host goes on.
func TestHostileOPA(t *testing.T) {
	call := func(builtin, id, arg uint32) []byte {
		return w.Join(w.I32(int32(id)), w.I32(0), w.I32(int32(arg)), w.I32(int32(arg)), w.Call(builtin))
	}
	dump := w.LocalGet(0)
	for name, c := range map[string]struct {
		bodies func(builtin uint32) map[string][]byte
		want   string
	}{
		"a good one": {func(uint32) map[string][]byte { return nil }, ""},
		"a builtin that calls itself by its arguments": {func(b uint32) map[string][]byte {
			return map[string][]byte{"eval": call(b, 0, 5), "opa_json_dump": w.Join(dump, w.I32(100), w.Op(0x49), w.If(call(b, 0, 5), w.Op(0x1a)), dump)} // lt_u, drop
		}, "outside of an evaluation"},
		"a builtin while the input is read": {func(b uint32) map[string][]byte {
			return map[string][]byte{"opa_heap_ptr_set": w.Join(call(b, 0, 5), w.Op(0x1a))}
		}, "outside of an evaluation"},
		"a builtin that is not announced": {func(b uint32) map[string][]byte { return map[string][]byte{"eval": call(b, 9, 1200)} }, "has not announced"},
		"arguments outside memory":        {func(b uint32) map[string][]byte { return map[string][]byte{"eval": call(b, 0, 1<<30)} }, "a text at"},
		"arguments that are no JSON":      {func(b uint32) map[string][]byte { return map[string][]byte{"eval": call(b, 0, 1201)} }, "no JSON"},
		"a heap outside memory":           {func(uint32) map[string][]byte { return map[string][]byte{"opa_malloc": w.I32(-1)} }, "outside memory"},
		"an input that it refuses":        {func(uint32) map[string][]byte { return map[string][]byte{"opa_json_parse": w.I32(0)} }, "refuses"},
		"a result outside memory":         {func(uint32) map[string][]byte { return map[string][]byte{"opa_eval_ctx_get_result": w.I32(-1)} }, "a text at"},
		"a result without an end":         {func(uint32) map[string][]byte { return map[string][]byte{"opa_eval_ctx_get_result": w.I32(2<<16 - 1)} }, "answer"},
		"entrypoints that cannot be read": {func(uint32) map[string][]byte { return map[string][]byte{"entrypoints": w.I32(1201)} }, "entrypoints cannot be read"},
		"an eval that fails":              {func(uint32) map[string][]byte { return map[string][]byte{"eval": w.I32(1)} }, "eval failed"},
		"an eval that spins":              {func(uint32) map[string][]byte { return map[string][]byte{"eval": w.Join(w.Loop(w.Br(0)), w.I32(0))} }, "fuel"},
	} {
		t.Run(name, func(t *testing.T) {
			m, err := Open(t.Context(), Source{Name: "p", Path: write(t, fakeOPA(c.bodies)), Kinds: []string{KindRoute}})
			if err != nil {
				if c.want == "" || !strings.Contains(err.Error(), c.want) {
					t.Fatal(err)
				}
				return
			}
			defer m.Close()
			for range 3 {
				a, r := m.Route(t.Context(), routeFacts())
				if (c.want != "") != a.Failed || !strings.Contains(r.Error, c.want) {
					t.Errorf("got %+v, error %q, want %q", a, r.Error, c.want)
				}
			}
		})
	}
}
