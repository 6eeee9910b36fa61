package policy

import (
	"context"
	"testing"

	w "github.com/flynnhost/flynn/host/policy/meter/wasmtest"
)

// TestFuelIsTheSameWhateverWasLeft: a module goes on with what the decision before it has left of its slice, and that shows nowhere.
func TestFuelIsTheSameWhateverWasLeft(t *testing.T) {
	countDown := w.Loop(w.LocalGet(0), w.I32(1), w.Op(0x6b), w.Op(0x22, 0), w.BrIf(0)) // from the length of the frame
	for name, c := range map[string]struct {
		body []byte
		fuel int64
		ends Class
	}{
		"ends in time":        {w.Join(countDown, w.I64(0)), 50_000, ""},
		"ends at its limit":   {w.Join(w.Loop(w.Br(0)), w.I64(0)), 250_000, ClassFuel},
		"limit below a slice": {w.Join(w.Loop(w.Br(0)), w.I64(0)), 500, ClassFuel},
	} {
		t.Run(name, func(t *testing.T) {
			source := Source{Name: "p", Path: write(t, w.Policy(1).Hook("flynn_route", "", c.body)), Kinds: []string{KindRoute}, Limits: Limits{Fuel: c.fuel, Wall: unhurried}}
			m := engine(t, source).slots[0].module
			f := routeFacts()
			var first int64
			for n, left := range []int64{0, 1, 2, 3, 499, 500, 501, 1000, sliceFuel - 1, sliceFuel, -1, -1000} {
				i, err := m.acquire(context.Background(), 0, true)
				if err != nil {
					t.Fatal(err)
				}
				i.slice = left
				i.fuel.Set(uint64(left))
				q := routeQuery(&f, "UTC", newAgentList(f.Agents))
				var r Record
				var v decision
				i.decide(context.Background(), q, &r, &v)
				m.pool.put(i)
				if n == 0 {
					first = r.Fuel
				}
				var ended Class
				if v.err != nil {
					ended = v.err.Class
				}
				if ended != c.ends || r.Fuel != first || r.Fuel < 100 {
					t.Errorf("with %d left: fuel %d and %v; with nothing left %d", left, r.Fuel, v.err, first)
				}
			}
		})
	}
}
