package plugin

import (
	"fmt"
	"time"

	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/sdk/proto/channelv1"
)

// Capabilities says what a channel can do, as its manifest and its process agree.
type Capabilities struct {
	MaxTextRunes       int           // longest text of one message in code points; 0: no known limit
	MaxAttachmentBytes int64         // 0: none are taken
	Edit               bool          // Client.Edit works
	EditWindow         time.Duration // how long after sending; 0: for ever
	MinEditInterval    time.Duration // least time between two edits of one message
	Typing             bool
	Delete             bool
	React              bool
	Fetch              bool
	Upload             bool
	Resolve            bool
	Reconcile          bool // Client.Reconcile works
	Idempotent         bool // recognises a repeated key even after its own restart
	Exclusive          bool // one connection per credential
	Threads            bool
	Markdown           bool // takes Markdown; otherwise text is sent as it is
	Buttons            bool // shows buttons
	// Senders is what is proved about the ids of senders; of a Client, under the settings of its instance.
	Senders message.SenderProof
}

var proofsOfWire = map[channelv1.SenderProof]message.SenderProof{
	channelv1.SenderProof_SENDER_PROOF_PROVED:  message.SendersProved,
	channelv1.SenderProof_SENDER_PROOF_CLAIMED: message.SendersClaimed,
	channelv1.SenderProof_SENDER_PROOF_NONE:    message.SendersUnproved,
}

// defaultEditInterval is used for channels that name none.
const defaultEditInterval = time.Second

// capabilitiesFromWire reads what a process declares. Figures that cannot be meant are taken as "no limit known".
func capabilitiesFromWire(c *channelv1.Capabilities) Capabilities {
	out := Capabilities{
		MaxTextRunes:       int(min(c.GetMaxTextRunes(), 1<<30)),
		MaxAttachmentBytes: int64(min(c.GetMaxAttachmentBytes(), 1<<50)),
		Edit:               c.GetEdit() == channelv1.EditLevel_EDIT_LEVEL_OWN,
		EditWindow:         max(c.GetEditWindow().AsDuration(), 0),
		MinEditInterval:    max(c.GetMinEditInterval().AsDuration(), 0),
		Typing:             c.GetTyping(),
		Delete:             c.GetDelete(),
		React:              c.GetReact(),
		Fetch:              c.GetFetch(),
		Upload:             c.GetUpload(),
		Resolve:            c.GetResolve(),
		Reconcile:          c.GetReconcile(),
		Idempotent:         c.GetIdempotent(),
		Exclusive:          c.GetExclusive(),
		Threads:            c.GetThreads(),
		Markdown:           c.GetFormat() == channelv1.TextFormat_TEXT_FORMAT_MARKDOWN,
		Buttons:            c.GetButtons(),
		Senders:            proofsOfWire[c.GetSenders()], // one of a later protocol is none that this host knows
	}
	if out.MinEditInterval == 0 {
		out.MinEditInterval = defaultEditInterval
	}
	return out
}

// differences names the capabilities on which the manifest and the process disagree.
func (c Capabilities) differences(declared Capabilities) []string {
	var out []string
	for _, f := range []struct {
		key             string
		manifest, tells any
	}{
		{"max_text", c.MaxTextRunes, declared.MaxTextRunes},
		{"max_attachment", c.MaxAttachmentBytes, declared.MaxAttachmentBytes},
		{"edit", c.Edit, declared.Edit},
		{"edit_window", c.EditWindow, declared.EditWindow},
		{"min_edit_interval", c.MinEditInterval, declared.MinEditInterval},
		{"typing", c.Typing, declared.Typing},
		{"delete", c.Delete, declared.Delete},
		{"react", c.React, declared.React},
		{"fetch", c.Fetch, declared.Fetch},
		{"upload", c.Upload, declared.Upload},
		{"resolve", c.Resolve, declared.Resolve},
		{"reconcile", c.Reconcile, declared.Reconcile},
		{"idempotent", c.Idempotent, declared.Idempotent},
		{"exclusive", c.Exclusive, declared.Exclusive},
		{"threads", c.Threads, declared.Threads},
		{"markdown", c.Markdown, declared.Markdown},
		{"buttons", c.Buttons, declared.Buttons},
		{"senders", proofWord(c.Senders), proofWord(declared.Senders)},
	} {
		if f.manifest != f.tells {
			out = append(out, fmt.Sprintf("channel.%s is %v in plugin.toml, but the process says %v", f.key, f.manifest, f.tells))
		}
	}
	return out
}

func proofWord(p message.SenderProof) string {
	if p == message.SendersUnsaid {
		return "not said"
	}
	return string(p)
}
