package policy

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"github.com/flynnhost/flynn/host/policy/meter"
	"github.com/flynnhost/flynn/host/policy/meter/verify"
	"github.com/flynnhost/flynn/host/policy/opa"
	"github.com/flynnhost/flynn/sdk/policy/abi"
	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"
)

// maxModule bounds a module's file, in bytes.
const maxModule = meter.MaxModule

// The limits of a module while it is loaded, for the set-up of language runtimes. A longer wall of its own applies here, too.
const (
	initFuel = 300_000_000
	initWall = 2 * time.Second
	warmFuel = 20_000_000 // of a warm-up decision, added to the limit

	compileWall    = 60 * time.Second
	compileWorkers = 2
)

// identity returns the digest of everything that decides: module, data, limits and versions.
func identity(wasm []byte, s Source) string { return identityOf(fileDigest(wasm), s) }

// identityOf is identity with the SHA-256 of the file.
func identityOf(file string, s Source) string {
	limits := s.Limits.withDefaults()
	// Marshalling sorts the data's keys.
	config, err := json.Marshal([]any{meter.Version, abi.Version, limits, s.Data, s.isolation(), s.has(KindRoute), s.has(KindTool)})
	if err != nil {
		return "" // unreachable: these are numbers and strings
	}
	h := sha256.New()
	fmt.Fprintf(h, "%s\n%s\n", file, config)
	return hex.EncodeToString(h.Sum(nil))
}

// loadModule makes a module with one instance in its first state.
func loadModule(ctx context.Context, h *host, source Source, wasm []byte) (*Module, error) {
	h.retain()
	m := &Module{source: source, limits: source.Limits.withDefaults(), digest: identity(wasm, source), file: fileDigest(wasm),
		host: h, pure: source.isolation() == IsolationPure}
	m.refs.Store(1)
	if err := m.build(ctx, wasm); err != nil {
		m.release()
		return nil, asError(err, ClassLoad)
	}
	return m, nil
}

func (m *Module) build(ctx context.Context, wasm []byte) error {
	out, err := m.rewrite(wasm, m.host.counts)
	if err != nil {
		return err
	}
	if err := m.compile(ctx, out.Wasm); err != nil {
		return err
	}
	if m.host.counts {
		if m.blockCounts, err = newBlockCounts(ctx, m.host.runtime, out.Blocks); err != nil {
			return err
		}
	}
	seed, err := m.seed(ctx)
	if err != nil {
		return err
	}
	m.pool = newPool(m.instantiate)
	if !seed.clean || m.image.isShared() {
		// It could not be reset, or was made before the image was shared and cannot be reset cheaply.
		seed.close()
		return m.first(ctx)
	}
	m.pool.live++
	m.pool.own(seed)
	m.pool.put(seed)
	return nil
}

// rewrite makes the metered module and checks the module against the contract, and the metered one with package verify. It compiles nothing.
func (m *Module) rewrite(wasm []byte, count bool) (*meter.Output, error) {
	out, err := meter.Rewrite(wasm, meter.Options{MaxPages: uint32(m.limits.Memory >> 16), Count: count})
	if err != nil {
		return nil, err
	}
	m.info, m.rego = out.Info, dialectOf(out.Info, wasm)
	if err := m.checkContract(); err != nil {
		return out, err
	}
	return out, verify.Check(out.Wasm)
}

// compile compiles in bounded time. The compiler checks its context between functions, and only if it has several workers.
func (m *Module) compile(ctx context.Context, wasm []byte) (err error) {
	ctx, cancel := context.WithTimeout(experimental.WithCompilationWorkers(ctx, compileWorkers), compileWall)
	defer cancel()
	if err := m.host.offered(); err != nil {
		return err
	}
	if m.compiled, err = m.host.runtime.CompileModule(ctx, wasm); err != nil {
		return fmt.Errorf("compile: %w", err)
	}
	return nil
}

// first makes the first instance of the pool, so that a failure is found while loading.
func (m *Module) first(ctx context.Context) error {
	i, err := m.pool.get(ctx, 0)
	if err != nil {
		return err
	}
	m.pool.put(i)
	return nil
}

// checkContract compares imports and exports with the contract.
func (m *Module) checkContract() error {
	if !m.info.HasMemory {
		return fmt.Errorf("the module does not export its memory as \"memory\"")
	}
	if err := m.checkImports(); err != nil {
		return err
	}
	if _, ok := m.info.Exports["_start"]; ok {
		return fmt.Errorf("the module is a program with _start; build it as a library, in Go with -buildmode=c-shared")
	}
	if m.pure && m.info.HiddenState {
		return fmt.Errorf("the module changes tables or drops segments, which cannot be put back: set isolation = \"warm\", or build it without")
	}
	if m.rego != nil {
		return m.checkDialect()
	}
	want := map[string]meter.Signature{"flynn_abi": "() -> i32", "flynn_buffer": "(i32) -> i32"}
	if m.source.has(KindRoute) {
		want["flynn_route"] = "(i32) -> i64"
	}
	if m.source.has(KindTool) {
		want["flynn_tool"] = "(i32) -> i64"
	}
	if _, ok := m.info.Exports["_initialize"]; ok {
		want["_initialize"] = "()"
	}
	for name, signature := range want {
		have, ok := m.info.Exports[name]
		if !ok {
			return fmt.Errorf("the module does not export %s%s, which a policy of kinds %v needs", name, signature, m.source.Kinds)
		}
		if have != signature {
			return fmt.Errorf("the module's %s is %s, it has to be %s", name, have, signature)
		}
	}
	return nil
}

func (m *Module) checkImports() error {
	known := map[[2]string]meter.Signature{}
	for _, f := range hostFunctions() {
		if f.module != meter.ImportModule && (f.module != opa.Module || m.rego != nil) {
			known[[2]string{f.module, f.name}] = f.signature()
		}
	}
	for _, imp := range m.info.Imports {
		have, ok := known[[2]string{imp.Module, imp.Name}]
		switch {
		case !ok:
			return fmt.Errorf("the module imports %s.%s, which this host does not offer; it offers %s %d.%d", imp.Module, imp.Name, abi.Module, abi.Major, abi.Minor)
		case have != imp.Type:
			return fmt.Errorf("the module imports %s.%s as %s, it is %s", imp.Module, imp.Name, imp.Type, have)
		}
	}
	return nil
}

// seed makes the instance of which the image is taken.
func (m *Module) seed(ctx context.Context) (*instance, error) {
	i, err := m.fresh(ctx)
	if err != nil {
		return nil, err
	}
	if err := i.initialise(ctx); err != nil {
		i.close()
		return nil, err
	}
	m.blockCounts.begin(i)
	if m.info.HiddenState {
		return i, nil
	}
	if m.image, err = takeImage(i); err == nil {
		err = i.warmUp(ctx)
	}
	if err == nil {
		err = m.image.share()
	}
	m.blockCounts.clear(i)
	if err != nil {
		i.close()
		return nil, err
	}
	return i, nil
}

// instantiate makes another instance in the first state.
func (m *Module) instantiate() (*instance, error) {
	ctx := context.Background()
	i, err := m.fresh(ctx)
	if err != nil {
		return nil, err
	}
	if m.image != nil {
		err = i.adopt(m.image)
	} else {
		err = i.initialise(ctx)
	}
	if err != nil {
		i.close()
		return nil, err
	}
	m.blockCounts.clear(i)
	return i, nil
}

// fresh instantiates the compiled module without running it.
func (m *Module) fresh(ctx context.Context) (*instance, error) {
	ctx, counters, err := m.blockCounts.counters(ctx)
	if err != nil {
		return nil, fmt.Errorf("instantiate its counters: %w", err)
	}
	b, allocator := newBacking()
	wasm, err := m.host.runtime.InstantiateModule(experimental.WithMemoryAllocator(ctx, allocator), m.compiled, anonymous())
	if err != nil {
		counters.close()
		return nil, fmt.Errorf("instantiate: %w", err)
	}
	i := &instance{module: m, wasm: wasm, counters: counters, memory: wasm.Memory(), backing: b, buffer: wasm.ExportedFunction("flynn_buffer"),
		fuel: mutable(wasm, meter.FuelGlobal), depth: mutable(wasm, meter.DepthGlobal), sampleAt: m.firstSample()}
	for _, name := range m.info.Mutable {
		i.globals = append(i.globals, mutable(wasm, name))
	}
	// Each handle owns a stack, so only the functions that will be called are looked up.
	if m.source.has(KindRoute) {
		i.route = wasm.ExportedFunction("flynn_route")
	}
	if m.source.has(KindTool) {
		i.tool = wasm.ExportedFunction("flynn_tool")
	}
	if m.rego != nil {
		i.rego = newRego(wasm, m.rego)
	}
	i.depth.Set(uint64(m.limits.Depth))
	return i, nil
}

// anonymous is the configuration of a module that may have many instances.
func anonymous() wazero.ModuleConfig {
	return wazero.NewModuleConfig().WithName("").WithStartFunctions()
}

// mutable returns an exported global of the metered module, which exists.
func mutable(wasm api.Module, name string) api.MutableGlobal {
	g, _ := wasm.ExportedGlobal(name).(api.MutableGlobal)
	return g
}

// initialise runs the module's start functions, checks its version and finds its region. It is metered like any call.
func (i *instance) initialise(ctx context.Context) error {
	i.begin(ctx, &query{}, initFuel, max(initWall, i.module.limits.Wall))
	defer i.end()
	for _, name := range []string{meter.StartExport, "_initialize"} {
		if f := i.wasm.ExportedFunction(name); f != nil {
			if err := i.call(f); err != nil {
				return &Error{err.Class, fmt.Errorf("in %s: %w", name, err.Err)}
			}
		}
	}
	if err := i.agree(); err != nil {
		return err
	}
	i.clean = true
	i.resetAt = i.module.host.clock()
	return nil
}

// agree checks the module's version and finds its region, or does what replaces both in OPA's ABI.
func (i *instance) agree() error {
	if i.rego != nil {
		return i.setUpRego()
	}
	if err := i.call(i.wasm.ExportedFunction("flynn_abi")); err != nil {
		return err
	}
	major, minor := uint32(i.stack[0])>>16, uint32(i.stack[0])&0xffff
	if major != abi.Major || minor > abi.Minor {
		return fmt.Errorf("the module speaks flynn %d.%d, this host %d.%d", major, minor, abi.Major, abi.Minor)
	}
	return untyped(i.findRegion(maxOutput))
}

// untyped returns err as an error, nil if the pointer is nil.
func untyped(err *Error) error {
	if err == nil {
		return nil
	}
	return err
}

// warmUp makes one decision of each kind with invented facts and takes the image again, so that it includes what a runtime sets up lazily.
// A module that fails keeps the earlier image; it may have reasons to refuse such facts.
func (i *instance) warmUp(ctx context.Context) error {
	m := i.module
	for _, q := range m.syntheticQueries() {
		i.begin(ctx, q, m.limits.Fuel+warmFuel, max(initWall, m.limits.Wall))
		i.clean = false
		var v decision
		i.run(q.kind, q.frame, &Record{}, &v)
		i.end()
		if v.err != nil {
			m.warning = cmp.Or(m.warning, fmt.Sprintf("the made-up %s decision failed: %v", q.kind, v.err))
			i.broken = true
			break
		}
	}
	if i.broken {
		i.reset()
		return nil
	}
	again, err := takeImage(i)
	if err != nil {
		return err
	}
	m.image = again
	i.settle(again)
	return nil
}

func (m *Module) syntheticQueries() []*query {
	facts := Facts{Role: "guest", Door: "channel", Now: time.Unix(1_700_000_000, 0).UTC()}
	facts.Message.Channel, facts.Message.Sender.ID, facts.Message.Text = "warm-up", "nobody", "hello"
	facts.Message.Conversation.Kind = "dm"
	nobody := []string{"nobody"}
	var list []*query
	if m.source.has(KindRoute) {
		list = append(list, routeQuery(&RouteFacts{Facts: facts, Agents: nobody}, m.host.zone, newAgentList(nobody)))
	}
	if m.source.has(KindTool) {
		list = append(list, toolQuery(&ToolFacts{Facts: facts, Agent: "nobody", Tool: "none", Args: json.RawMessage("{}")}, m.host.zone))
	}
	return list
}
