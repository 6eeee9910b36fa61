package message

// SenderProof is what a channel instance proves about sender ids. Only with SendersProved and SendersAccepted can a rule of [access] or
// a pairing make a sender more than a guest.
type SenderProof string

// The proofs. A plugin declares one of the first four; the operator's settings turn SendersClaimed into SendersAccepted.
const (
	SendersUnsaid   SenderProof = ""         // the plugin does not say
	SendersProved   SenderProof = "proved"   // the platform authenticates each sender
	SendersClaimed  SenderProof = "claimed"  // the id is what the sender claims, such as a nickname that anybody can take
	SendersUnproved SenderProof = "none"     // the platform does not tell senders apart
	SendersAccepted SenderProof = "accepted" // not proved, but trusted by the operator's settings
)

// Counts reports whether an id may carry the rights of an owner or a member.
func (p SenderProof) Counts() bool { return p == SendersProved || p == SendersAccepted }
