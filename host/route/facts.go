package route

import (
	"time"

	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/policy"
)

// Facts are what a message by itself tells policies, at every door and in `flynn route test`. What the session adds is filled in
// by who has it.
func Facts(m message.Message, roles *Roles, now time.Time) policy.Facts {
	return policy.Facts{Message: m, Role: roles.Of(m.Channel, m.SenderKey()), Door: Frontend(m.Channel), Now: now, Seed: now.UnixNano()}
}
