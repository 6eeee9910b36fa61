package policy

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"time"
)

// slot is one place in the chain. It holds a reference to each of its modules.
type slot struct {
	source   Source
	module   *Module // in force; nil when the policy is failing
	previous *Module // kept compiled for a file that goes back
	tried    string  // SHA-256 of the file that was tried last
	err      error   // why that file is not in force
	loadedAt time.Time
	loadTook time.Duration
	passed   *atomic.Int64 // see link
}

// inherit takes over the modules of the slot's predecessor.
func (s *slot) inherit(old *slot) {
	s.previous = old.previous.retain()
	s.passed = old.passed
	if old.source.equal(s.source) {
		s.module, s.tried, s.err = old.module.retain(), old.tried, old.err
		s.loadedAt, s.loadTook = old.loadedAt, old.loadTook
		return
	}
	// Other limits or data make another policy of the same file. It may still be one to go back to.
	if old.module != nil {
		s.previous.release()
		s.previous = old.module.retain()
	}
}

func dropAll(slots []*slot) {
	for _, s := range slots {
		s.module.release()
		s.previous.release()
		s.module, s.previous = nil, nil
	}
}

// refresh brings the slot in line with its file and reports whether it tried to. A file that fails any step leaves the
// module in force where it is.
func (e *Engine) refresh(ctx context.Context, s *slot) bool {
	wasm, err := readModule(s.source.Path)
	sum := "unreadable"
	if err == nil {
		sum = fileDigest(wasm)
	}
	if s.tried == sum {
		return false
	}
	s.tried = sum
	if err != nil {
		s.err = &Error{ClassLoad, err}
		return true
	}
	begin := time.Now()
	m, err := e.obtain(ctx, s, wasm)
	if err != nil {
		s.err = err
		return true
	}
	s.err = nil
	if m == s.module {
		return true
	}
	s.loadedAt, s.loadTook = time.Now(), time.Since(begin)
	if m == s.previous {
		s.module, s.previous = s.previous, s.module
		return true
	}
	s.previous.release()
	s.module, s.previous = m, s.module
	return true
}

// obtain finds or loads the module. A loaded one comes with a reference, a found one without. The file is foreign and
// goes through a lot of code: a bug that it brings to light is a fault of the file, not the end of the host.
func (e *Engine) obtain(ctx context.Context, s *slot, wasm []byte) (m *Module, err error) {
	defer func() {
		if p := recover(); p != nil {
			m, err = nil, &Error{ClassLoad, fmt.Errorf("panic while loading: %v\n%s", p, debug.Stack())}
		}
	}()
	digest := identity(wasm, s.source)
	for _, m := range []*Module{s.module, s.previous} {
		if m != nil && m.digest == digest {
			return m, nil
		}
	}
	if m, err = loadModule(ctx, e.host, s.source, wasm); err != nil {
		return nil, err
	}
	if e.cfg.Gate != nil {
		if err := e.cfg.Gate(ctx, m); err != nil {
			m.release()
			return nil, &Error{ClassLoad, fmt.Errorf("kept out by the gate: %w", err)}
		}
	}
	return m, nil
}

// readModule reads at most what a module may have, so that a wrong path cannot fill the memory.
func readModule(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil {
		return nil, err
	} else if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", path)
	}
	wasm, err := io.ReadAll(io.LimitReader(f, maxModule+1))
	if err == nil && len(wasm) > maxModule {
		err = fmt.Errorf("%s is larger than %d bytes", path, maxModule)
	}
	return wasm, err
}

func fileDigest(wasm []byte) string {
	sum := sha256.Sum256(wasm)
	return hex.EncodeToString(sum[:])
}

func (s *slot) state() string {
	switch {
	case s.module == nil:
		return StateFailing
	case s.err != nil:
		return StateStale
	}
	return StateRunning
}

func (s *slot) status() Status {
	st := Status{
		Name: s.source.Name, Path: s.source.Path, Kinds: s.source.Kinds, Isolation: s.source.isolation(), State: s.state(),
		LoadedAt: s.loadedAt, LoadTook: s.loadTook, FuelLimit: s.source.Limits.withDefaults().Fuel,
	}
	if s.err != nil {
		st.Error = s.err.Error()
	}
	if s.module != nil {
		s.module.fill(&st)
	}
	st.Agents, st.Channels, st.AllowOnError = s.source.Agents, s.source.Channels, s.source.AllowOnError
	if s.passed != nil {
		st.Passed = s.passed.Load()
	}
	if s.source.AllowOnError {
		st.Warning = strings.TrimPrefix(st.Warning+"; where it fails it restricts nothing (dangerously_allow_on_error)", "; ")
	}
	return st
}
