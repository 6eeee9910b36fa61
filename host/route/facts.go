package route

import (
	"time"

	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/policy"
)

// Facts returns what a message by itself tells policies, on every frontend and in `flynn route test`. The caller adds the facts of the
// session.
func Facts(m message.Message, roles *Roles, now time.Time) policy.Facts {
	return policy.Facts{Message: m.Own(), Role: roles.Of(m.Channel, m.SenderKey()), Door: Door(m.Channel), Now: now, Seed: now.UnixNano()}
}
