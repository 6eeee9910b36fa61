package frame

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"time"
)

// A returning host and the supervisor reach each other by a socket that commands inside can connect to as well, so both ends prove that
// they know the secret of the Hello, without revealing it:
//
//	host to supervisor  Adopt{Challenge: a, Epoch: its own}
//	supervisor to host  Adopt{Challenge: b, Epoch: of the last host, Proof: HMAC(secret, "supervisor", a, b, both epochs)}
//	host to supervisor  Adopt{Proof: HMAC(secret, "host", a, b, both epochs)}, Kept
//
// A host whose epoch is not higher than that of the last one is refused: another host has taken the sandbox over.

// AdoptBody is one step of this exchange; unused fields are empty.
type AdoptBody struct {
	Challenge []byte `json:"challenge,omitempty"`
	Proof     []byte `json:"proof,omitempty"`
	Epoch     uint64 `json:"epoch,omitempty"`
}

// SecretSize is the length of secrets, challenges and proofs, in bytes.
const SecretSize = sha256.Size

// Exchange is what both proofs cover.
type Exchange struct {
	Host, Supervisor AdoptBody // their challenges and epochs
}

// Prove returns the proof of one end.
func (side Side) Prove(secret []byte, x Exchange) []byte {
	name := "host"
	if side == SupervisorSide {
		name = "supervisor"
	}
	sum := hmac.New(sha256.New, secret)
	sum.Write([]byte(name))
	sum.Write([]byte{0})
	for _, end := range []AdoptBody{x.Host, x.Supervisor} {
		sum.Write(end.Challenge) // of a fixed length
		sum.Write(binary.BigEndian.AppendUint64(nil, end.Epoch))
	}
	return sum.Sum(nil)
}

// Proven reports whether proof is the proof of side.
func (side Side) Proven(proof, secret []byte, x Exchange) bool {
	return len(secret) == SecretSize && len(x.Host.Challenge) == SecretSize && len(x.Supervisor.Challenge) == SecretSize &&
		hmac.Equal(proof, side.Prove(secret, x))
}

// Taken reports whether the sandbox belongs to another host than the one that asks.
func (x Exchange) Taken() bool { return x.Host.Epoch <= x.Supervisor.Epoch }

// RenewBody sets how long background commands outlive the host from now on.
type RenewBody struct {
	Lease time.Duration `json:"lease"` // 0: they end with the host
	// Keep has the sandbox outlive the host even if no background command runs, because another host may take it over with its workspace.
	Keep bool `json:"keep,omitempty"`
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
