package policy

import (
	"context"
	"fmt"
	"os"
	"runtime/debug"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
)

// languages are those of the table's modules.
func (t *table) languages() []string {
	return []string{"C", "Rust", "AssemblyScript", "Go", "Rego"}
}

// metering prints what the exported function takes with the same frame in memory, with the meter and without. In Rego a decision is several
// calls; BenchmarkMetering of package rego has that.
func (t *table) metering() {
	fmt.Printf("\nthe exported function alone, %d turns of 64 calls, nanoseconds\n", 10**benchTurns)
	w := tabwriter.NewWriter(os.Stdout, 0, 8, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "plain p50\tmetered p50\tratio\tplain least\tmetered least\tratio\t ")
	for _, language := range t.languages() {
		if language == "Rego" {
			continue
		}
		plain, metered := t.meteringOf(t.paths[language])
		p, m := median(plain), median(metered)
		fmt.Fprintf(w, "%d\t%d\t%.2f\t%d\t%d\t%.2f\t  %s\n", p, m, float64(m)/float64(p), plain[0], metered[0], float64(metered[0])/float64(plain[0]), language)
	}
	w.Flush()
}

func (t *table) meteringOf(path string) (plain, metered []time.Duration) {
	e := engine(t.b, Source{Name: "rules", Path: path, Kinds: []string{KindRoute}, Limits: Limits{Fuel: maxFuel, Wall: maxWall}})
	i, err := e.slots[0].module.pool.get(context.Background(), 0)
	if err != nil {
		t.b.Fatal(err)
	}
	defer e.slots[0].module.pool.put(i)
	bare, region := unmetered(t.b, e, path)
	var frames [][]byte
	for k := range t.messages {
		frames = append(frames, routeQuery(&t.messages[k], "UTC", newAgentList(t.messages[k].Agents)).frame)
	}
	route := bare.ExportedFunction("flynn_route")
	for range 10 * *benchTurns {
		plain = append(plain, calling(t.b, bare.Memory(), region, route, context.Background(), frames))
		i.begin(context.Background(), &query{}, maxFuel, maxWall)
		metered = append(metered, calling(t.b, i.memory, i.region, i.route, i, frames))
		if err := i.charge(0); err != nil {
			t.b.Fatal(err)
		}
		i.end()
	}
	return plain, metered
}

// calling is the time of one of 64 calls.
func calling(b *testing.B, memory api.Memory, region uint32, f api.Function, ctx context.Context, frames [][]byte) time.Duration {
	const calls = 64
	var stack [1]uint64
	begin := time.Now()
	for n := range calls {
		frame := frames[n%len(frames)]
		memory.Write(region, frame)
		stack[0] = uint64(len(frame))
		if err := f.CallWithStack(ctx, stack[:]); err != nil {
			b.Fatal(err)
		}
	}
	return time.Since(begin) / calls
}

// unmetered instantiates the original module.
func unmetered(b *testing.B, e *Engine, path string) (api.Module, uint32) {
	wasm, err := os.ReadFile(path)
	if err != nil {
		b.Fatal(err)
	}
	ctx := context.Background()
	compiled, err := e.host.runtime.CompileModule(ctx, wasm)
	if err != nil {
		b.Fatal(err)
	}
	m, err := e.host.runtime.InstantiateModule(ctx, compiled, wazero.NewModuleConfig().WithName("").WithStartFunctions())
	if err != nil {
		b.Fatal(err)
	}
	i := &instance{fuel: nowhere{}, limit: maxFuel, memory: m.Memory(), q: &query{}, module: &Module{host: e.host, limits: Limits{HostCalls: 1 << 30}}}
	if f := m.ExportedFunction("_initialize"); f != nil {
		if _, err := f.Call(i); err != nil {
			b.Fatal(err)
		}
	}
	at, err := m.ExportedFunction("flynn_buffer").Call(i, maxOutput)
	if err != nil {
		b.Fatal(err)
	}
	return m, uint32(at[0])
}

// nowhere takes charges for a module without a meter.
type nowhere struct{ api.MutableGlobal }

func (nowhere) Get() uint64 { return 0 }
func (nowhere) Set(uint64)  {}

// instances prints what a module and its instances cost. "load" is all the way from the file to the first instance.
func (t *table) instances() {
	fmt.Println("\nmodules and instances: milliseconds to load, microseconds for an instance (p50), kilobytes of one")
	w := tabwriter.NewWriter(os.Stdout, 0, 8, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "load, cold\tfrom cache\tinstantiate\treset\tpooled\tmemory\tresident\t ")
	for _, language := range t.languages() {
		source := Source{Name: "rules", Path: t.paths[language], Kinds: []string{KindRoute}, Isolation: IsolationPure}
		cache := t.b.TempDir() + "/cache"
		cold := []time.Duration{t.load(source, cache), t.load(source, t.b.TempDir()+"/cache"), t.load(source, t.b.TempDir()+"/cache")}
		var warm []time.Duration
		for range 10 {
			warm = append(warm, t.load(source, cache))
		}
		m := engine(t.b, source).slots[0].module
		fresh, reset, pooled := t.instanceTimes(m)
		fmt.Fprintf(w, "%.1f\t%.1f\t%.1f\t%.2f\t%.3f\t%d\t%d\t  %s\n", 1e3*median(cold).Seconds(), 1e3*median(warm).Seconds(),
			1e6*fresh.Seconds(), 1e6*reset.Seconds(), 1e6*pooled.Seconds(), len(m.image.memory)>>10, t.resident(m)>>10, language)
	}
	w.Flush()
}

func (t *table) load(source Source, cache string) time.Duration {
	began := time.Now()
	e, err := New(context.Background(), Config{Sources: []Source{source}, CacheDir: cache})
	took := time.Since(began)
	if err == nil {
		err = e.Close()
	}
	if err != nil {
		t.b.Fatal(err)
	}
	return took
}

// instanceTimes are medians: of making an instance, of bringing one back to its first state after a decision, and of taking one from
// the pool and putting it back.
func (t *table) instanceTimes(m *Module) (fresh, reset, pooled time.Duration) {
	var made, resets, takes []time.Duration
	for range 50 {
		began := time.Now()
		i, err := m.instantiate()
		made = append(made, time.Since(began))
		if err != nil {
			t.b.Fatal(err)
		}
		for k := range t.messages {
			t.decide(i, k)
			began := time.Now()
			if !i.reset() {
				t.b.Fatal("an instance cannot be put back")
			}
			resets = append(resets, time.Since(began))
		}
		i.close()
	}
	for range 500 {
		const times = 64
		began := time.Now()
		for range times {
			i, err := m.pool.get(context.Background(), 0)
			if err != nil {
				t.b.Fatal(err)
			}
			m.pool.put(i)
		}
		takes = append(takes, time.Since(began)/times)
	}
	return median(made), median(resets), median(takes)
}

func (t *table) decide(i *instance, k int) {
	q := routeQuery(&t.messages[k], "UTC", newAgentList(t.messages[k].Agents))
	var v decision
	if i.decide(context.Background(), q, &Record{}, &v); v.err != nil {
		t.b.Fatal(v.err)
	}
}

// resident is by how much the process grows for an instance that has decided.
func (t *table) resident(m *Module) int {
	const many = 64
	before := residentNow(t.b)
	list := make([]*instance, many)
	for k := range list {
		i, err := m.instantiate()
		if err != nil {
			t.b.Fatal(err)
		}
		t.decide(i, k%len(t.messages))
		list[k] = i
	}
	grown := residentNow(t.b) - before
	for _, i := range list {
		i.close()
	}
	return grown / many
}

func residentNow(b *testing.B) int {
	debug.FreeOSMemory()
	statm, err := os.ReadFile("/proc/self/statm")
	var all, resident int
	if err == nil {
		_, err = fmt.Sscan(string(statm), &all, &resident)
	}
	if err != nil {
		b.Skip(err)
	}
	return resident * os.Getpagesize()
}
