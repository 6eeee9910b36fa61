package policy

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// slot is one policy of the chain with its modules, to which it holds references.
type slot struct {
	source   Source
	module   *Module // in force; nil when the policy is failing
	previous *Module // stays compiled, for a file that changes back
	tried    string  // SHA-256 of the file that was tried last
	proofs   string  // result of Gate.Proofs then
	err      error   // why that file is not in force
	loadedAt time.Time
	loadTook time.Duration
	passed   *atomic.Int64 // see link
	recalled bool          // past is set
	past     Past          // how the policy was left, with the current pin and refusal
	change   *Change       // to be recorded
}

// inherit takes over the modules of the slot's predecessor.
func (s *slot) inherit(old *slot) {
	s.previous = old.previous.retain()
	s.passed = old.passed
	s.recalled, s.past = old.recalled, old.past
	if old.module != nil {
		s.past.File, s.past.Digest = old.module.file, old.module.digest
	}
	if old.source.equal(s.source) {
		s.module, s.tried, s.proofs, s.err = old.module.retain(), old.tried, old.proofs, old.err
		s.loadedAt, s.loadTook = old.loadedAt, old.loadTook
		return
	}
	// Other limits or data make a different module of the same file. The old one may still be needed.
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

// loadWorkers bounds the policies that are loaded in parallel.
const loadWorkers = 4

// refreshEach refreshes slots in parallel and returns the result of refresh for each.
func (e *Engine) refreshEach(ctx context.Context, slots []*slot, by string) []bool {
	tried := make([]bool, len(slots))
	workers := make(chan struct{}, max(2, min(loadWorkers, runtime.GOMAXPROCS(0))))
	var wg sync.WaitGroup
	for i, s := range slots {
		workers <- struct{}{}
		wg.Go(func() {
			defer func() { <-workers }()
			tried[i] = e.refresh(ctx, s, by)
		})
	}
	wg.Wait()
	return tried
}

// refresh loads the slot's file if it has changed and reports whether it tried to. If any step fails, the module in force stays.
func (e *Engine) refresh(ctx context.Context, s *slot, by string) bool {
	wasm, err := s.source.read(ctx)
	sum := "unreadable"
	if err == nil {
		sum = fileDigest(wasm)
	}
	same := s.tried == sum
	if same && s.err == nil {
		return false
	}
	proofs := e.proofs(s.source)
	if same && s.proofs == proofs {
		return false
	}
	if err := e.recall(ctx, s); err != nil {
		s.err = &Error{ClassLoad, fmt.Errorf("recall how the policy was left: %w", err)}
		return true
	}
	s.tried, s.proofs = sum, proofs
	if err == nil && s.past.Pin.Over != sum { // a file that is missing has not changed
		s.past.Pin = Pin{}
	}
	m, err := e.choose(ctx, s, wasm, err)
	if err != nil {
		s.err = err
		e.fallBack(ctx, s)
		s.changed(OutcomeRefused, by, s.triedFile(), "", err.Error())
		if s.past.Refused != "" { // recorded already
			s.change = nil
		}
		return true
	}
	s.err = nil
	if m == s.module {
		return true
	}
	before, fallback := s.module, s.past.File
	s.install(m)
	if s.past.Pin.File == "" {
		e.putOnTrial(s, m, fallback, before)
		s.changed(OutcomeInForce, by, m.file, m.digest, "")
	}
	s.past.File, s.past.Digest = m.file, m.digest
	return true
}

// proofs returns the gate's Proofs for a source.
func (e *Engine) proofs(source Source) string {
	if e.cfg.Gate == nil {
		return ""
	}
	return e.cfg.Gate.Proofs(source)
}

// triedFile returns the digest of the file that was tried last, "" if it could not be read.
func (s *slot) triedFile() string {
	if len(s.tried) == hex.EncodedLen(sha256.Size) {
		return s.tried
	}
	return ""
}

// choose returns the module that is to be in force: the pinned one, or that of the file if the gate accepts it.
func (e *Engine) choose(ctx context.Context, s *slot, wasm []byte, unread error) (*Module, error) {
	begin := time.Now()
	defer func() { s.loadTook = time.Since(begin) }()
	switch {
	case s.past.Pin.File != "":
		return e.archived(ctx, s, s.past.Pin.File)
	case unread != nil:
		return nil, &Error{ClassLoad, unread}
	case s.past.Refused != "" && identity(wasm, s.source) == s.past.Refused:
		return nil, failf(ClassLoad, "the file's module failed too often when it was in force: change the file, or run flynn policy rollback %s --clear",
			s.source.Name)
	}
	s.past.Refused = ""
	return e.obtain(ctx, s, wasm)
}

// install makes m the module in force and keeps the previous one.
func (s *slot) install(m *Module) {
	s.loadedAt = time.Now()
	switch m {
	case s.module:
	case s.previous:
		s.module, s.previous = s.previous, s.module
	default:
		s.previous.release()
		s.module, s.previous = m, s.module
	}
}

// obtain returns the module of a file: a compiled one without a reference, or a newly loaded one with a reference.
func (e *Engine) obtain(ctx context.Context, s *slot, wasm []byte) (*Module, error) {
	if m := s.compiled(identity(wasm, s.source)); m != nil {
		return m, nil
	}
	return e.load(ctx, s, wasm, func(m *Module) error { return e.prove(ctx, s, m, wasm) })
}

// compiled returns the slot's module with that digest, or nil.
func (s *slot) compiled(digest string) *Module {
	for _, m := range []*Module{s.module, s.previous} {
		if m != nil && m.digest == digest {
			return m
		}
	}
	return nil
}

// load loads a module and runs a final check. The file may come from anywhere and passes through much code: a panic becomes an error of
// the file and does not end the host.
func (e *Engine) load(ctx context.Context, s *slot, wasm []byte, check func(*Module) error) (m *Module, err error) {
	defer func() {
		if p := recover(); p != nil {
			m, err = nil, &Error{ClassLoad, fmt.Errorf("panic while loading: %v\n%s", p, debug.Stack())}
		}
	}()
	if m, err = loadModule(ctx, e.host, s.source, wasm); err != nil {
		return nil, err
	}
	if err := check(m); err != nil {
		m.release()
		return nil, &Error{ClassLoad, err}
	}
	return m, nil
}

// readModule reads a module's file of bounded size, so that a wrong path cannot fill the memory.
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
	case s.past.Pin.File != "":
		return StatePinned
	}
	return StateRunning
}

// loadingStatus returns the status of a policy that is not in the chain yet.
func loadingStatus(s Source) Status {
	return Status{
		Name: s.Name, Path: s.Path, Kinds: s.Kinds, Isolation: s.isolation(), State: StateLoading, Shadow: s.Shadow, ShadowOf: s.ShadowOf,
		FuelLimit: s.Limits.withDefaults().Fuel, Agents: s.Agents, Channels: s.Channels, AllowOnError: s.AllowOnError,
		Warning: "its module is being loaded; until then decisions are made by the configuration before",
	}
}

func (s *slot) status() Status {
	st := Status{
		Name: s.source.Name, Path: s.source.Path, Kinds: s.source.Kinds, Isolation: s.source.isolation(), State: s.state(),
		LoadedAt: s.loadedAt, LoadTook: s.loadTook, FuelLimit: s.source.Limits.withDefaults().Fuel,
		Shadow: s.source.Shadow, ShadowOf: s.source.ShadowOf,
	}
	if s.module != nil && s.past.Pin.File == s.module.file {
		st.Pinned = s.past.Pin.File
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
