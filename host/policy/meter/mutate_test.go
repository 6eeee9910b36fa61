package meter_test

import (
	"bytes"
	"testing"

	"github.com/flynnhost/flynn/host/policy/meter"
	"github.com/flynnhost/flynn/host/policy/meter/verify"
	w "github.com/flynnhost/flynn/host/policy/meter/wasmtest"
	"pgregory.net/rapid"
)

// The counters of a module of the generator's, which has one global and imports nothing, and the host's functions.
const (
	fuelIndex, depthIndex = 1, 2
	tickIndex, deepIndex  = 0, 1
)

// mutation is one piece of the meter in a module, and what it is replaced by.
type mutation struct {
	what     string
	at       int
	with     []byte
	detected bool // has to be
}

// mutations are all that can be done to the meter of a module, one piece at a time.
func mutations(wasm []byte) (all []mutation) {
	nops := func(n int) []byte { return bytes.Repeat([]byte{0x01}, n) }
	for _, global := range []byte{fuelIndex, depthIndex} {
		name := map[byte]string{fuelIndex: "fuel", depthIndex: "depth"}[global]
		function := map[byte]byte{fuelIndex: tickIndex, depthIndex: deepIndex}[global]
		check := w.Join([]byte{0x23, global}, w.I64(0), []byte{0x53, 0x04, 0x40, 0x10, function, 0x0b})
		for at := range wasm {
			rest := wasm[at:]
			if bytes.HasPrefix(rest, check) {
				all = append(all,
					mutation{name + " check removed", at, nops(len(check)), true},
					mutation{name + " check that asks the opposite", at + 4, []byte{0x59}, true},
					mutation{name + " check that does nothing", at + 7, []byte{0x01, 0x01}, true})
			}
			size, amount := taking(rest, global)
			if size == 0 {
				continue
			}
			all = append(all,
				mutation{name + " not taken", at, nops(size), true},
				mutation{name + " given in place of taken", at + size - 3, []byte{0x7c}, true},
				mutation{name + " taken from the module's own", at + size - 1, []byte{0}, true})
			// A call costs more than one unit for its one instruction, so that only less than that is sure to be missed.
			const least = 40
			if global == fuelIndex && amount >= least {
				one := []byte{0x01}
				if amount >= 64 {
					one = []byte{0x81, 0x00}
				}
				all = append(all, mutation{name + " taken once for many", at + 3, one, amount < 1<<13})
			}
		}
	}
	return all
}

// taking recognises the taking of an amount from a counter, and tells its size.
func taking(code []byte, global byte) (size, amount int) {
	if len(code) < 8 || code[0] != 0x23 || code[1] != global || code[2] != 0x42 {
		return 0, 0
	}
	at := 3
	for shift := 0; ; shift += 7 {
		amount |= int(code[at]&0x7f) << shift
		at++
		if code[at-1] < 0x80 {
			break
		}
	}
	if !bytes.HasPrefix(code[at:], []byte{0x7d, 0x24, global}) {
		return 0, 0
	}
	return at + 3, amount
}

// TestVerifierFindsEveryMutation removes and weakens each piece of the meter of many modules, at each function's start, loop and basic block.
func TestVerifierFindsEveryMutation(t *testing.T) {
	found := map[string]int{}
	rapid.Check(t, func(t *rapid.T) {
		g := &generator{choices: choices().Draw(t, "choices")}
		out, err := meter.Rewrite(g.module(), meter.Options{MaxPages: 3})
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range mutations(out.Wasm) {
			bad := bytes.Clone(out.Wasm)
			copy(bad[m.at:], m.with)
			if verify.Check(bad) == nil && m.detected {
				t.Fatalf("%s at byte %d is not found\n%x", m.what, m.at, out.Wasm)
			}
			found[m.what]++
		}
	})
	t.Logf("%v", found)
	if len(found) < 12 {
		t.Errorf("only these were tried: %v", found)
	}
}
