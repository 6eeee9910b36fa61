package plugin

import (
	"fmt"
	"time"

	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/sdk/proto/channelv1"
)

var proofsOfWire = map[channelv1.SenderProof]message.SenderProof{
	channelv1.SenderProof_SENDER_PROOF_PROVED:  message.SendersProved,
	channelv1.SenderProof_SENDER_PROOF_CLAIMED: message.SendersClaimed,
	channelv1.SenderProof_SENDER_PROOF_NONE:    message.SendersUnproved,
}

// defaultEditInterval is used for channels that name none.
const defaultEditInterval = time.Second

// capabilitiesFromWire reads what a process declares. Figures that cannot be meant are taken as "no limit known".
func capabilitiesFromWire(c *channelv1.Capabilities) message.Capabilities {
	out := message.Capabilities{
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
func differences(manifest, declared message.Capabilities) []string {
	var out []string
	for _, f := range []struct {
		key         string
		says, tells any
	}{
		{"max_text", manifest.MaxTextRunes, declared.MaxTextRunes},
		{"max_attachment", manifest.MaxAttachmentBytes, declared.MaxAttachmentBytes},
		{"edit", manifest.Edit, declared.Edit},
		{"edit_window", manifest.EditWindow, declared.EditWindow},
		{"min_edit_interval", manifest.MinEditInterval, declared.MinEditInterval},
		{"typing", manifest.Typing, declared.Typing},
		{"delete", manifest.Delete, declared.Delete},
		{"react", manifest.React, declared.React},
		{"fetch", manifest.Fetch, declared.Fetch},
		{"upload", manifest.Upload, declared.Upload},
		{"resolve", manifest.Resolve, declared.Resolve},
		{"reconcile", manifest.Reconcile, declared.Reconcile},
		{"idempotent", manifest.Idempotent, declared.Idempotent},
		{"exclusive", manifest.Exclusive, declared.Exclusive},
		{"threads", manifest.Threads, declared.Threads},
		{"markdown", manifest.Markdown, declared.Markdown},
		{"buttons", manifest.Buttons, declared.Buttons},
		{"senders", proofWord(manifest.Senders), proofWord(declared.Senders)},
	} {
		if f.says != f.tells {
			out = append(out, fmt.Sprintf("channel.%s is %v in plugin.toml, but the process says %v", f.key, f.says, f.tells))
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
