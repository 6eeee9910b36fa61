package channel

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/plugin/kind"
	"github.com/flynnhost/flynn/sdk/proto/channelv1"
	"github.com/flynnhost/flynn/sdk/proto/pluginv1"
)

// Options is the table [channel] of plugin.toml: the capabilities of a channel, which its process has to confirm.
type Options struct {
	MaxText         int           `toml:"max_text"` // code points
	MaxAttachment   kind.Size     `toml:"max_attachment"`
	Edit            bool          `toml:"edit"`
	EditWindow      kind.Duration `toml:"edit_window"`
	MinEditInterval kind.Duration `toml:"min_edit_interval"`
	Typing          bool          `toml:"typing"`
	Delete          bool          `toml:"delete"`
	React           bool          `toml:"react"`
	Fetch           bool          `toml:"fetch"`
	Upload          bool          `toml:"upload"`
	Resolve         bool          `toml:"resolve"`
	Reconcile       bool          `toml:"reconcile"`
	Idempotent      bool          `toml:"idempotent"`
	Exclusive       bool          `toml:"exclusive"`
	ManyHosts       bool          `toml:"shared"`
	SendsApart      bool          `toml:"sends_apart"`
	Threads         bool          `toml:"threads"`
	Markdown        bool          `toml:"markdown"`
	Buttons         bool          `toml:"buttons"`
	// Senders says what the platform proves about the ids of senders: "proved", "claimed" or "none".
	Senders message.SenderProof `toml:"senders"`
	// ClaimedWhen are settings with which the ids of senders are claims although Senders is "proved". An operator who sets one of them
	// accepts the claims.
	ClaimedWhen map[string]any `toml:"claimed_when"`
	// TogetherWhen are settings with one of which an instance cannot send before it may receive, although SendsApart is set.
	TogetherWhen map[string]any `toml:"together_when"`
}

// OptionsOf returns the options of channels among those of all kinds.
func OptionsOf(all map[kind.Name]kind.Options) Options {
	if o, ok := all[Name].(*Options); ok {
		return *o
	}
	return Options{}
}

// Check implements kind.Options.
func (o Options) Check(report func(format string, args ...any)) {
	if o.MaxText < 0 || o.MaxText > 1<<30 {
		report("channel.max_text %d is out of range", o.MaxText)
	}
	known := []message.SenderProof{message.SendersUnsaid, message.SendersProved, message.SendersClaimed, message.SendersUnproved}
	if !slices.Contains(known, o.Senders) {
		report("channel.senders %q: must be proved, claimed or none", o.Senders)
	}
	if len(o.ClaimedWhen) > 0 && o.Senders != message.SendersProved {
		report("channel.claimed_when needs senders = \"proved\"")
	}
	if o.Exclusive && o.ManyHosts {
		report("channel.exclusive and channel.shared contradict each other: set one of them")
	}
	if len(o.TogetherWhen) > 0 && !o.SendsApart {
		report("channel.together_when needs sends_apart = true")
	}
	for name, settings := range map[string]map[string]any{"claimed_when": o.ClaimedWhen, "together_when": o.TogetherWhen} {
		for key, value := range settings {
			switch value.(type) {
			case string, bool:
			default:
				report("channel.%s.%s: must be a string, true or false", name, key)
			}
		}
	}
}

// Shared implements kind.Options: by default one host at a time uses an account.
func (o Options) Shared() bool { return o.ManyHosts }

// Alone implements kind.Options: some platforms allow one connection per credential.
func (o Options) Alone() bool { return o.Exclusive }

// Apart implements kind.Apart.
func (o Options) Apart(settings map[string]any) bool {
	return o.SendsApart && !anyOf(o.TogetherWhen, settings)
}

// anyOf reports whether one of some settings is as given.
func anyOf(given, settings map[string]any) bool {
	for key, value := range given {
		if settings[key] == value {
			return true
		}
	}
	return false
}

// Differences implements kind.Options.
func (o Options) Differences(d *pluginv1.DescribeResponse) []string {
	var out []string
	manifest, process := reflect.ValueOf(o.complete()), reflect.ValueOf(optionsFromWire(d.GetChannel()).complete())
	for i := range manifest.NumField() {
		if says, tells := shown(manifest.Field(i)), shown(process.Field(i)); says != tells {
			key := manifest.Type().Field(i).Tag.Get("toml")
			out = append(out, fmt.Sprintf("channel.%s is %v in plugin.toml, but the process reports %v", key, says, tells))
		}
	}
	return out
}

// shown returns a capability as people read it; nil for one that only plugin.toml has.
func shown(v reflect.Value) any {
	switch v := v.Interface().(type) {
	case kind.Duration:
		return time.Duration(v)
	case message.SenderProof:
		if v == message.SendersUnsaid {
			return "not set"
		}
		return string(v)
	case map[string]any:
		return nil
	default:
		return v
	}
}

// defaultEditInterval is used for channels that name none.
const defaultEditInterval = kind.Duration(time.Second)

func (o Options) complete() Options {
	o.MinEditInterval = cmp.Or(o.MinEditInterval, defaultEditInterval)
	return o
}

var proofsOfWire = map[channelv1.SenderProof]message.SenderProof{
	channelv1.SenderProof_SENDER_PROOF_PROVED:  message.SendersProved,
	channelv1.SenderProof_SENDER_PROOF_CLAIMED: message.SendersClaimed,
	channelv1.SenderProof_SENDER_PROOF_NONE:    message.SendersUnproved,
}

// optionsFromWire reads the capabilities that a process declares. Impossible numbers count as "no limit known".
func optionsFromWire(c *channelv1.Capabilities) Options {
	return Options{
		MaxText:         int(min(c.GetMaxTextRunes(), 1<<30)),
		MaxAttachment:   kind.Size(min(c.GetMaxAttachmentBytes(), 1<<50)),
		Edit:            c.GetEdit() == channelv1.EditLevel_EDIT_LEVEL_OWN,
		EditWindow:      kind.Duration(max(c.GetEditWindow().AsDuration(), 0)),
		MinEditInterval: kind.Duration(max(c.GetMinEditInterval().AsDuration(), 0)),
		Typing:          c.GetTyping(),
		Delete:          c.GetDelete(),
		React:           c.GetReact(),
		Fetch:           c.GetFetch(),
		Upload:          c.GetUpload(),
		Resolve:         c.GetResolve(),
		Reconcile:       c.GetReconcile(),
		Idempotent:      c.GetIdempotent(),
		Exclusive:       c.GetExclusive(),
		ManyHosts:       c.GetShared(),
		SendsApart:      c.GetSendsApart(),
		Threads:         c.GetThreads(),
		Markdown:        c.GetFormat() == channelv1.TextFormat_TEXT_FORMAT_MARKDOWN,
		Buttons:         c.GetButtons(),
		Senders:         proofsOfWire[c.GetSenders()], // "" for one of a later protocol
	}
}

// Capabilities returns what an instance with those settings can do.
func (o Options) Capabilities(settings map[string]any) message.Capabilities {
	return message.Capabilities{
		MaxTextRunes: o.MaxText, MaxAttachmentBytes: int64(o.MaxAttachment),
		Edit: o.Edit, EditWindow: time.Duration(o.EditWindow), MinEditInterval: time.Duration(o.complete().MinEditInterval),
		Typing: o.Typing, Delete: o.Delete, React: o.React, Fetch: o.Fetch, Upload: o.Upload, Resolve: o.Resolve,
		Reconcile: o.Reconcile, Idempotent: o.Idempotent, Exclusive: o.Exclusive, Threads: o.Threads, Markdown: o.Markdown,
		Buttons: o.Buttons, Senders: o.Proof(settings),
	}
}

// Proof returns what the platform proves about the ids of senders, for an instance with those settings.
func (o Options) Proof(settings map[string]any) message.SenderProof {
	if anyOf(o.ClaimedWhen, settings) {
		return message.SendersAccepted
	}
	return o.Senders
}
