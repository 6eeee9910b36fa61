package author

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/flynnhost/flynn/host/policy"
)

// Was is what was answered then, and by which module.
type Was struct {
	Outcome    Outcome `json:"outcome"`
	Digest     string  `json:"digest"`         // of the module, its data and limits
	File       string  `json:"file,omitempty"` // SHA-256 of its file; rows of an older flynn have none
	SameModule bool    `json:"same_module"`    // as is asked now, with the same data and limits
}

// ExplainRecord explains what the policy answers to a recorded decision. The record holds all that the policy could see.
func ExplainRecord(ctx context.Context, source policy.Source, record policy.Record) (x Explanation, err error) {
	m, err := policy.Open(ctx, source)
	if err != nil {
		return Explanation{}, fmt.Errorf("load policy %s: %w", source.Name, err)
	}
	r := &recording{module: m, record: record}
	first, err := m.Replay(ctx, record)
	if err == nil && first.Lacks != "" {
		err = fmt.Errorf("the log does not hold the decision's whole %s, which the policy asks for", first.Lacks)
	}
	if err != nil {
		return Explanation{}, errors.Join(err, m.Close())
	}
	open := func(context.Context, Case) (asker, error) { return r, nil }
	x, err = explain(ctx, open, Case{Kind: record.Kind}, func(asker) answered { return answered{outcomeOf(first.Is), first.Is} })
	x.Policy = source.Name
	x.Was = &Was{Outcome: outcomeOf(record), Digest: record.Digest, File: record.File, SameModule: record.Digest == m.Digest()}
	return x, err
}

// recording asks a recorded decision again.
type recording struct {
	module *policy.Module
	record policy.Record
}

func (r *recording) Close() error { return r.module.Close() }

func (r *recording) ask(ctx context.Context, c Case) answered {
	return r.askFrame(ctx, c, r.record.Frame)
}

func (r *recording) askFrame(ctx context.Context, _ Case, frame []byte) answered {
	got, err := r.module.ReplayFrame(ctx, r.record, frame)
	if err != nil { // the frame was read once already
		got.Is.Error = err.Error()
	}
	return answered{outcomeOf(got.Is), got.Is}
}

// outcomeOf reads an outcome out of the words of a record.
func outcomeOf(r policy.Record) Outcome {
	o := recorded(r)
	if r.Error != "" {
		o.Answer = answerError
		return o
	}
	if agent, ok := strings.CutPrefix(r.Answer, "agent "); ok && r.Kind == policy.KindRoute {
		o.Answer, o.Agent = "agent", agent
		return o
	}
	if o.Answer = r.Answer; r.Kind == policy.KindRoute {
		return o
	}
	if r.Answer == "none" {
		o.Answer = "unrestricted"
		return o
	}
	o.Answer = "restricted"
	for _, word := range strings.Split(r.Answer, ", ") {
		name, sandbox := strings.CutPrefix(word, "sandbox")
		switch {
		case word == "deny":
			o.Deny = true
		case word == "ask":
			o.Ask = true
		case sandbox:
			o.Sandbox, o.SandboxName = true, strings.TrimSpace(name)
		}
	}
	return o
}
