package message

// SenderProof says what a channel instance proves about the ids of its senders. Only SendersProved and SendersAccepted let a rule of
// [access] or a pairing make somebody more than a guest.
type SenderProof string

// The proofs. A plugin declares one of the first four; SendersAccepted is what the operator makes of a claim by writing it out.
const (
	SendersUnsaid   SenderProof = ""         // the plugin does not say, as those made before the field
	SendersProved   SenderProof = "proved"   // the platform authenticates each sender
	SendersClaimed  SenderProof = "claimed"  // the id is what the sender claims, such as a nickname that anybody can take
	SendersUnproved SenderProof = "none"     // the platform does not tell senders apart
	SendersAccepted SenderProof = "accepted" // not proved, and the operator's settings say that it is to count
)

// Counts reports whether an id may carry the rights of an owner or a member.
func (p SenderProof) Counts() bool { return p == SendersProved || p == SendersAccepted }
