package frame

import (
	"crypto/hmac"
	"crypto/sha256"
	"time"
)

// A returning host reaches the supervisor by a socket that commands inside can connect to as well, so both ends prove that they know the
// secret of the Hello, without revealing it:
//
//	host to supervisor  Adopt{Challenge: a}
//	supervisor to host  Adopt{Challenge: b, Proof: HMAC(secret, "supervisor", a, b)}
//	host to supervisor  Adopt{Proof: HMAC(secret, "host", a, b)}, Kept

// AdoptBody is one step of this exchange; unused fields are empty.
type AdoptBody struct {
	Challenge []byte `json:"challenge,omitempty"`
	Proof     []byte `json:"proof,omitempty"`
}

// SecretSize is the length of secrets, challenges and proofs, in bytes.
const SecretSize = sha256.Size

// Prove returns the proof of one end, which covers both challenges.
func (side Side) Prove(secret, hosts, supervisors []byte) []byte {
	name := "host"
	if side == SupervisorSide {
		name = "supervisor"
	}
	sum := hmac.New(sha256.New, secret)
	for _, part := range [][]byte{[]byte(name), {0}, hosts, supervisors} { // the challenges have a fixed length
		sum.Write(part)
	}
	return sum.Sum(nil)
}

// Proven reports whether proof is the proof of side.
func (side Side) Proven(proof, secret, hosts, supervisors []byte) bool {
	return len(secret) == SecretSize && len(hosts) == SecretSize && len(supervisors) == SecretSize &&
		hmac.Equal(proof, side.Prove(secret, hosts, supervisors))
}

// RenewBody sets how long background commands outlive the host from now on.
type RenewBody struct {
	Lease time.Duration `json:"lease"` // 0: they end with the host
}

// KeptEntry is one background command.
type KeptEntry struct {
	Request uint32    `json:"r"`
	Process int       `json:"p"` // as in its ExecBody
	PID     int       `json:"pid"`
	Script  []byte    `json:"s"`
	Started int64     `json:"t"`           // Unix nanoseconds
	Exit    *ExitBody `json:"x,omitempty"` // once it has ended
}
