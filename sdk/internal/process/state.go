package process

// State is the state of the connection. The numbers are those of the protocol.
type State int

// The states.
const (
	StateConnecting   State = iota + 1
	StateReady              // connected and working
	StateDegraded           // working with losses that the text explains
	StateAuthRequired       // a person has to renew a credential
	StateRateLimited        // the platform asked to slow down
)
