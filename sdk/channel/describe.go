package channel

import (
	"github.com/flynnhost/flynn/sdk/internal/process"
	"github.com/flynnhost/flynn/sdk/proto/channelv1"
	"github.com/flynnhost/flynn/sdk/proto/pluginv1"
)

// describe joins the author's description with the abilities of the implemented interfaces.
func describe(p Channel, wire *pluginv1.DescribeResponse) {
	d := p.Describe()
	wire.Name, wire.Version, wire.ConfigSchemaDigest = d.Name, d.Version, process.SchemaDigest(d.ConfigSchema)
	wire.Kinds = append(wire.Kinds, pluginv1.Kind_KIND_CHANNEL)
	wire.Channel, wire.Lease = capabilities(p, d.Capabilities), true
}

func capabilities(p Channel, c Capabilities) *channelv1.Capabilities {
	wire := &channelv1.Capabilities{
		MaxTextRunes:       uint32(max(c.MaxTextRunes, 0)),
		MaxAttachmentBytes: uint64(max(c.MaxAttachmentBytes, 0)),
		EditWindow:         durationToWire(c.EditWindow),
		MinEditInterval:    durationToWire(c.MinEditInterval),
		Typing:             is[Typer](p),
		Delete:             is[Deleter](p),
		React:              is[Reacter](p),
		Fetch:              is[Fetcher](p),
		Upload:             is[Uploader](p),
		Resolve:            is[Resolver](p),
		Reconcile:          is[Reconciler](p),
		Idempotent:         c.Idempotent,
		Exclusive:          c.Exclusive,
		Shared:             c.Shared,
		SendsApart:         c.SendsApart,
		Threads:            c.Threads,
		Buttons:            c.Buttons,
		Format:             channelv1.TextFormat_TEXT_FORMAT_PLAIN,
		Senders:            proofs[c.Senders],
	}
	if is[Editor](p) {
		wire.Edit = channelv1.EditLevel_EDIT_LEVEL_OWN
	}
	if c.Markdown {
		wire.Format = channelv1.TextFormat_TEXT_FORMAT_MARKDOWN
	}
	return wire
}

var proofs = map[SenderProof]channelv1.SenderProof{
	SendersProved:   channelv1.SenderProof_SENDER_PROOF_PROVED,
	SendersClaimed:  channelv1.SenderProof_SENDER_PROOF_CLAIMED,
	SendersUnproved: channelv1.SenderProof_SENDER_PROOF_NONE,
}

// is reports whether p also implements T.
func is[T any](p Channel) bool {
	_, ok := p.(T)
	return ok
}
