package verify

import (
	"testing"

	w "github.com/flynnhost/flynn/host/policy/meter/wasmtest"
)

func TestUnmeteredModuleIsRefused(t *testing.T) {
	for name, wasm := range map[string][]byte{
		"empty":     nil,
		"header":    []byte("\x00asm\x01\x00\x00\x00"),
		"truncated": []byte("\x00asm\x01\x00\x00\x00\x01\x7f"),
		"plain":     w.Policy(1).Hook("flynn_tool", "", w.I64(0)),
	} {
		if Check(wasm) == nil {
			t.Errorf("%s: passed", name)
		}
	}
}

// FuzzCheck feeds anything: the answer is an error or none, never a panic.
func FuzzCheck(f *testing.F) {
	f.Add([]byte{})
	f.Add(w.Policy(1).Hook("flynn_tool", "l", w.Loop(w.Br(0)), w.I64(0)))
	f.Fuzz(func(t *testing.T, wasm []byte) {
		if len(wasm) <= 1<<16 {
			_ = Check(wasm)
		}
	})
}
