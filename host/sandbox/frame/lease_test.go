package frame

import (
	"bytes"
	"testing"
)

// A proof holds for one end, one secret, and the challenges and epochs of both.
func TestProof(t *testing.T) {
	of := func(b byte) []byte { return bytes.Repeat([]byte{b}, SecretSize) }
	x := func(host, supervisor byte, epochs ...uint64) Exchange {
		return Exchange{AdoptBody{Challenge: of(host), Epoch: epochs[0]}, AdoptBody{Challenge: of(supervisor), Epoch: epochs[1]}}
	}
	right := x(2, 3, 8, 7)
	proof := SupervisorSide.Prove(of(1), right)
	if !SupervisorSide.Proven(proof, of(1), right) {
		t.Error("the right proof is refused")
	}
	short, long := right, right
	short.Host.Challenge, long.Supervisor.Challenge = of(2)[1:], append(of(3), 0)
	for name, accepted := range map[string]bool{
		"the other end's":   HostSide.Proven(proof, of(1), right),
		"another secret":    SupervisorSide.Proven(proof, of(9), right),
		"another challenge": SupervisorSide.Proven(proof, of(1), x(9, 3, 8, 7)),
		"swapped":           SupervisorSide.Proven(proof, of(1), x(3, 2, 8, 7)),
		"another epoch":     SupervisorSide.Proven(proof, of(1), x(2, 3, 9, 7)),
		"an older epoch":    SupervisorSide.Proven(proof, of(1), x(2, 3, 8, 6)),
		"swapped epochs":    SupervisorSide.Proven(proof, of(1), x(2, 3, 7, 8)),
		"none":              SupervisorSide.Proven(nil, of(1), right),
		"cut":               SupervisorSide.Proven(proof[:31], of(1), right),
		"no secret":         SupervisorSide.Proven(SupervisorSide.Prove(nil, right), nil, right),
		"no challenge":      SupervisorSide.Proven(SupervisorSide.Prove(of(1), Exchange{}), of(1), Exchange{}),
		"short":             SupervisorSide.Proven(SupervisorSide.Prove(of(1), short), of(1), short),
		"long":              SupervisorSide.Proven(SupervisorSide.Prove(of(1), long), of(1), long),
	} {
		if accepted {
			t.Errorf("accepted: %s", name)
		}
	}
	for epochs, taken := range map[[2]uint64]bool{{8, 7}: false, {7, 7}: true, {6, 7}: true, {0, 0}: true, {1, 0}: false, {1<<64 - 1, 0}: false} {
		if x := x(2, 3, epochs[0], epochs[1]); x.Taken() != taken {
			t.Errorf("epochs %v: taken %v", epochs, x.Taken())
		}
	}
}

// FuzzLeaseBodies: whatever is accepted says the same again.
func FuzzLeaseBodies(f *testing.F) {
	f.Add(Encode(AdoptBody{Challenge: []byte("c"), Proof: []byte("p"), Epoch: 1<<64 - 1}))
	f.Add(Encode(RenewBody{Lease: 1, Keep: true}))
	f.Add(Encode(KeptEntry{Request: 1, Process: 1, PID: 7, Script: []byte("true"), Exit: &ExitBody{}}))
	f.Add([]byte(`{"lease":1e99}`))
	f.Fuzz(func(t *testing.T, p []byte) {
		for _, body := range []any{new(AdoptBody), new(RenewBody), new(KeptEntry)} {
			if Decode(p, body) != nil {
				continue
			}
			if again := Encode(body); Decode(again, body) != nil || !bytes.Equal(again, Encode(body)) {
				t.Errorf("%T: %s became %s", body, p, again)
			}
		}
	})
}
