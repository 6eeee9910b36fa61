package author

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/BurntSushi/toml"

	"github.com/flynnhost/flynn/host/policy"
	"github.com/flynnhost/flynn/host/policy/cover"
)

// Subject is a policy's folder with its built module, for more questions than its cases.
type Subject struct {
	dir string
	p   *loaded
}

// OpenSubject reads a folder. The subject has to be closed.
func OpenSubject(dir string) (*Subject, error) {
	p, err := load(dir)
	if err != nil {
		return nil, err
	}
	return &Subject{dir, p}, nil
}

// Close removes the compiled code.
func (s *Subject) Close() error { return s.p.Close() }

// SHA256 is that of the module.
func (s *Subject) SHA256() string { return s.p.sha256 }

// Manifest is the folder's.
func (s *Subject) Manifest() Manifest { return s.p.manifest }

// Cases are the folder's.
func (s *Subject) Cases() ([]Case, error) { return LoadCases(s.dir, s.p.manifest) }

// Mode is in what way a module is loaded, beside what the manifest says.
type Mode struct {
	Count     bool          // the blocks that run
	Isolation string        // "" is the one that its kinds get
	Wall      time.Duration // 0 is the manifest's
	Room      int64         // how many times the manifest's limits it gets; 0 is once
}

// Loading is a loaded module. One goroutine uses it.
type Loading struct {
	*policy.Module
	asker asker
}

// Load loads the module with the data of a case. The loading has to be closed before the subject.
func (s *Subject) Load(ctx context.Context, c Case, mode Mode) (*Loading, error) {
	p := *s.p
	p.mode = mode
	a, err := p.open(ctx, c)
	if err != nil {
		return nil, err
	}
	q, ok := a.(*question)
	if !ok {
		return nil, errors.Join(fmt.Errorf("%s is no module of the engine", s.dir), a.Close())
	}
	return &Loading{q.module, a}, nil
}

// Close ends the module.
func (l *Loading) Close() error { return l.asker.Close() }

// Ask asks the case, whatever it wants.
func (l *Loading) Ask(ctx context.Context, c Case) (Outcome, policy.Record) {
	a := l.asker.ask(ctx, c)
	return a.outcome, a.record
}

// Uses tells what each fact of a case is to the policy, and what it calls.
func (l *Loading) Uses(ctx context.Context, c Case) ([]FactUse, []CallMade, error) {
	x, err := explain(ctx, func(context.Context, Case) (asker, error) { return kept{l.asker}, nil }, c, func(a asker) answered { return a.ask(ctx, c) })
	return x.Facts, x.Calls, err
}

// kept is an asker that its owner closes.
type kept struct{ asker }

func (kept) Close() error { return nil }

// Source is what the module says of its source, and which of it is the author's.
func (s *Subject) Source() (*cover.Source, cover.Own, error) {
	wasm, err := readModule(s.p.manifest, s.dir)
	if err != nil {
		return nil, cover.Own{}, err
	}
	source, err := readSource(s.p.path, wasm)
	return source, ownCode(s.p.manifest, s.dir), err
}

// Settle fills in and checks what facts that were changed may lack.
func (f *Facts) Settle() error { return f.settle() }

// Clone is a copy that shares nothing.
func (f Facts) Clone() Facts { return f.clone() }

// Class is the class of the failure, or "".
func (o Outcome) Class() string { return errorClass(o.Error) }

// Want is the outcome as a case expects it.
func (o Outcome) Want() Want {
	w := Want{Agent: o.Agent, Drop: o.Answer == "drop", Abstain: o.Answer == "abstain", Unrestricted: o.Answer == "unrestricted", Deny: o.Deny, Ask: o.Ask}
	if o.Sandbox {
		w.Sandbox = true
		if o.SandboxName != "" {
			w.Sandbox = o.SandboxName
		}
	}
	return w
}

// WriteCase writes one case as a file of cases that Test reads, with a comment on top.
func WriteCase(w io.Writer, c Case, comment string) error {
	one := map[string]any{"name": c.Name, "kind": c.Kind, "facts": c.Ask, "want": wantTable(c.Want)}
	if c.Data != nil {
		one["data"] = c.Data
	}
	if c.Kind == kindTool && len(c.Args) > 0 {
		one["args_json"] = string(c.Args)
	}
	for _, line := range bytes.Split([]byte(comment), []byte("\n")) {
		if _, err := fmt.Fprintf(w, "# %s\n", printable(line)); err != nil {
			return err
		}
	}
	return toml.NewEncoder(w).Encode(map[string]any{"case": []map[string]any{one}})
}

func wantTable(w Want) map[string]any {
	t := map[string]any{}
	for key, is := range map[string]bool{"abstain": w.Abstain, "drop": w.Drop, "unrestricted": w.Unrestricted, "deny": w.Deny, "ask": w.Ask} {
		if is {
			t[key] = true
		}
	}
	for key, text := range map[string]string{"agent": w.Agent, "error": w.Error} {
		if text != "" {
			t[key] = text
		}
	}
	if w.Sandbox != nil {
		t["sandbox"] = w.Sandbox
	}
	return t
}
