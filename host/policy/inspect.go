package policy

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/flynnhost/flynn/host/policy/meter"
)

// Inspection is what is known about a policy's module without running it.
type Inspection struct {
	Info   meter.Info
	Digest string // of all that decides: module, data, limits and meter version
	File   string // SHA-256 of the file
	Rego   bool   // it has OPA's ABI
	Limits Limits // in force
	Wasm   []byte
	// Refused is the reason why the loader refuses the module; nil if it accepts it, as far as can be known without running it.
	Refused error
}

// Inspect takes a policy's file through all steps of loading that do not run it. It returns an error if the file cannot be
// read or the source is invalid.
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

// load does what Module.build does before the first instance.
func (in *Inspection) load(ctx context.Context, s Source) (err error) {
	defer func() {
		if p := recover(); p != nil { // see obtain
			err = fmt.Errorf("panic while loading: %v\n%s", p, debug.Stack())
		}
	}()
	m := &Module{source: s, limits: in.Limits, pure: s.isolation() == IsolationPure}
	out, err := m.rewrite(in.Wasm, false)
	in.Info, in.Rego = m.info, m.rego != nil
	if err != nil {
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

// Examine is the part of Inspect that compiles nothing. hooks are the kinds of decision that the module exports a function for.
func Examine(s Source) (hooks []string, err error) {
	defer func() {
		if p := recover(); p != nil { // see obtain
			err = fmt.Errorf("panic while reading the module: %v\n%s", p, debug.Stack())
		}
	}()
	wasm, err := s.read(context.Background())
	if err != nil {
		return nil, err
	}
	m := &Module{source: s, limits: s.Limits.withDefaults(), pure: s.isolation() == IsolationPure}
	_, err = m.rewrite(wasm, false)
	for name := range m.info.Exports {
		if kind := strings.TrimPrefix(name, "flynn_"); kind == KindRoute || kind == KindTool {
			hooks = append(hooks, kind)
		}
	}
	slices.Sort(hooks)
	return hooks, err
}
