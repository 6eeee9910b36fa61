package gateway

import (
	"context"
	"io"
	"time"

	"github.com/flynnhost/flynn/host/message"
)

// People are the persons whom the host knows, with all that it has of them.
type People interface {
	// Known returns the persons after a sender key, by key: who asked to be let in, who is paired, who is listed by id in flynn.toml, and
	// who was answered. Words must occur in the key or the name.
	Known(ctx context.Context, after message.SenderKey, words string, limit int) ([]AccessEntry, error)
	// Person returns what the host has of a sender: store.ErrNotFound if it knows nothing of him.
	Person(ctx context.Context, sender message.SenderKey) (Person, error)
	// Export writes all that the host has of a sender, and of the ids that are linked with his, as a zip file.
	Export(ctx context.Context, sender message.SenderKey, w io.Writer) error
	// Erase deletes what Export writes. Decisions, the audit log, usage and what was said in groups stay.
	Erase(ctx context.Context, sender message.SenderKey, by string) (Erased, error)
	// SetBlocked writes a sender into access.blocked of flynn.toml and signs him out, or takes him out of it: store.ErrConflict if another rule there is stronger.
	SetBlocked(ctx context.Context, sender message.SenderKey, blocked bool, by string) error
}

// Person is what the host has of one person.
type Person struct {
	AccessEntry
	Blocked bool                `json:"blocked"`
	Linked  []message.SenderKey `json:"linked" doc:"Further ids that flynn.toml links with this one"`
	// Sessions, Notes, Files and SignIns count what belongs to the person alone.
	Sessions int       `json:"sessions"`
	Notes    int       `json:"notes"`
	Files    int       `json:"files"`
	SignIns  []SignIn  `json:"sign_ins"`
	Last     time.Time `json:"last,omitzero" doc:"When a private conversation was last answered"`
	Used     UsageSum  `json:"used" doc:"Since the records begin"`
	Month    UsageSum  `json:"month" doc:"In the last 30 days"`
	Held     Held      `json:"held"`
}

// Erased counts what was deleted of a person.
type Erased struct {
	Sessions int `json:"sessions"`
	Notes    int `json:"notes"`
	Files    int `json:"files"`
	SignIns  int `json:"sign_ins"`
}
