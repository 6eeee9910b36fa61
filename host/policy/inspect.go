package policy

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/flynnhost/flynn/host/policy/meter"
	"github.com/flynnhost/flynn/host/policy/meter/verify"
)

// Inspection is what can be told of a policy's module before any of it runs.
type Inspection struct {
	Info   meter.Info
	Digest string // of all that decides: module, data, limits and meter version
	File   string // SHA-256 of the file
	Rego   bool   // it has OPA's ABI
	Limits Limits // in force
	Wasm   []byte
	// Refused is why the loader does not take it; nil where it does, as far as it can be told without running it.
	Refused error
}

// Inspect takes a policy's file through every step of loading it that runs none of it. The error is of a file that cannot be
// read, or of a source that makes no sense.
func Inspect(ctx context.Context, s Source) (Inspection, error) {
	if err := s.check(); err != nil {
		return Inspection{}, fmt.Errorf("policy %q: %w", s.Name, err)
	}
	wasm, err := readModule(s.Path)
	if err != nil {
		return Inspection{}, err
	}
	in := Inspection{Digest: identity(wasm, s), File: fileDigest(wasm), Limits: s.Limits.withDefaults(), Wasm: wasm}
	in.Refused = in.load(ctx, s)
	return in, nil
}

// load is Module.build up to the first instance.
func (in *Inspection) load(ctx context.Context, s Source) (err error) {
	defer func() {
		if p := recover(); p != nil { // see obtain
			err = fmt.Errorf("panic while loading: %v\n%s", p, debug.Stack())
		}
	}()
	m := &Module{source: s, limits: in.Limits, pure: s.isolation() == IsolationPure}
	out, err := meter.Rewrite(in.Wasm, meter.Options{MaxPages: uint32(m.limits.Memory >> 16)})
	if err != nil {
		return err
	}
	m.info, m.rego = out.Info, dialectOf(out.Info, in.Wasm)
	in.Info, in.Rego = out.Info, m.rego != nil
	if err := m.checkContract(); err != nil {
		return err
	}
	if err := verify.Check(out.Wasm); err != nil {
		return err
	}
	h, err := newHost(ctx, "")
	if err != nil {
		return err
	}
	m.host = h
	err = m.compile(ctx, out.Wasm)
	if m.compiled != nil {
		err = errors.Join(err, m.compiled.Close(ctx))
	}
	return errors.Join(err, h.release())
}
