package frame

import (
	"bytes"
	"testing"
)

// A proof holds for one end, one secret and the two challenges in their order.
func TestProof(t *testing.T) {
	of := func(b byte) []byte { return bytes.Repeat([]byte{b}, SecretSize) }
	proof := SupervisorSide.Prove(of(1), of(2), of(3))
	if !SupervisorSide.Proven(proof, of(1), of(2), of(3)) {
		t.Error("the right proof is refused")
	}
	for name, accepted := range map[string]bool{
		"the other end's":   HostSide.Proven(proof, of(1), of(2), of(3)),
		"another secret":    SupervisorSide.Proven(proof, of(9), of(2), of(3)),
		"another challenge": SupervisorSide.Proven(proof, of(1), of(9), of(3)),
		"swapped":           SupervisorSide.Proven(proof, of(1), of(3), of(2)),
		"none":              SupervisorSide.Proven(nil, of(1), of(2), of(3)),
		"cut":               SupervisorSide.Proven(proof[:31], of(1), of(2), of(3)),
		"no secret":         SupervisorSide.Proven(SupervisorSide.Prove(nil, of(2), of(3)), nil, of(2), of(3)),
		"no challenge":      SupervisorSide.Proven(SupervisorSide.Prove(of(1), nil, of(3)), of(1), nil, of(3)),
		"shifted":           SupervisorSide.Proven(SupervisorSide.Prove(of(1), of(2)[1:], of(3)), of(1), of(2)[1:], of(3)),
	} {
		if accepted {
			t.Errorf("accepted: %s", name)
		}
	}
}

// FuzzLeaseBodies: whatever is accepted says the same again.
func FuzzLeaseBodies(f *testing.F) {
	f.Add(Encode(AdoptBody{Challenge: []byte("c"), Proof: []byte("p")}))
	f.Add(Encode(RenewBody{Lease: 1}))
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
