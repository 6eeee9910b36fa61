package channel

// Received is published for each message in the inbox: Fate is the state of its row, or "duplicate".
type Received struct{ Channel, Fate string }

// Judged is published for each decision of admission about an arriving message.
type Judged struct {
	Channel  string
	Decision Decision
}

// Delivered is published for each attempt to deliver a reply, with its outcome, and for each reply that was given up, with "dead".
type Delivered struct{ Channel, Outcome string }
