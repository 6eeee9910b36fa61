package policy

import (
	"context"
	"encoding/binary"
	"fmt"
	"sync"

	"github.com/flynnhost/flynn/host/policy/meter"
	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"
)

// blockCounts counts how often the basic blocks of a module run. The counters of an instance are the memory of a second module, which
// the instance calls, so that counting changes neither its memory nor its fuel nor its resets. A nil blockCounts counts nothing.
type blockCounts struct {
	blocks  []meter.Block
	entries []int // the first block of each function, which runs whenever the function does
	runtime wazero.Runtime
	counter wazero.CompiledModule
	initial []uint64 // counts of the initialisation

	mu   sync.Mutex
	gone []uint64 // counts of discarded instances that were not taken yet
}

func newBlockCounts(ctx context.Context, runtime wazero.Runtime, blocks []meter.Block) (*blockCounts, error) {
	counter, err := runtime.CompileModule(ctx, meter.Counter(len(blocks)))
	if err != nil {
		return nil, fmt.Errorf("compile its counters: %w", err)
	}
	c := &blockCounts{blocks: blocks, runtime: runtime, counter: counter, initial: make([]uint64, len(blocks)), gone: make([]uint64, len(blocks))}
	for i, b := range blocks {
		if i == 0 || b.Function != blocks[i-1].Function {
			c.entries = append(c.entries, i)
		}
	}
	return c, nil
}

func (c *blockCounts) close() {
	if c != nil {
		_ = c.counter.Close(context.Background()) // drops it from the runtime's table, no more
	}
}

// counters are those of one instance; nil for an instance that does not count.
type counters struct {
	module api.Module
	view   []byte // of its memory, which never grows
}

// counters makes the counters of an instance, which has to be made with the context that it returns.
func (c *blockCounts) counters(ctx context.Context) (context.Context, *counters, error) {
	if c == nil {
		return ctx, nil, nil
	}
	module, err := c.runtime.InstantiateModule(ctx, c.counter, anonymous())
	if err != nil {
		return ctx, nil, err
	}
	memory := module.ExportedMemory(meter.CounterMemory)
	view, _ := memory.Read(0, memory.Size())
	ctx = experimental.WithImportResolver(ctx, func(name string) api.Module {
		if name == meter.CountModule {
			return module
		}
		return nil
	})
	return ctx, &counters{module, view}, nil
}

func (k *counters) close() {
	if k != nil {
		_ = k.module.Close(context.Background()) // it has nothing but its memory
	}
}

// take returns a counter and sets it to zero.
func (k *counters) take(block int) uint64 {
	at := k.view[8*block:]
	n := binary.LittleEndian.Uint64(at)
	if n > 0 {
		binary.LittleEndian.PutUint64(at, 0)
	}
	return n
}

// begin adds the initialisation of an instance to the initial counts.
func (c *blockCounts) begin(i *instance) {
	if c != nil {
		c.take(i, func(block int, n uint64) { c.initial[block] += n })
	}
}

// clear sets the counters of an instance to zero.
func (c *blockCounts) clear(i *instance) {
	if c != nil {
		c.take(i, func(int, uint64) {})
	}
}

// keep saves the counts of an instance before it is discarded.
func (c *blockCounts) keep(i *instance) {
	if c != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.take(i, func(block int, n uint64) { c.gone[block] += n })
	}
}

// takeGone visits the counts that keep saved.
func (c *blockCounts) takeGone(visit func(block int, n uint64)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for block, n := range c.gone {
		if n > 0 {
			visit(block, n)
			c.gone[block] = 0
		}
	}
}

// take visits the blocks that have run and sets their counters to zero.
func (c *blockCounts) take(i *instance, visit func(block int, n uint64)) {
	for f, first := range c.entries {
		n := i.counters.take(first)
		if n == 0 {
			continue
		}
		visit(first, n)
		end := len(c.blocks)
		if f+1 < len(c.entries) {
			end = c.entries[f+1]
		}
		for b := first + 1; b < end; b++ {
			if n := i.counters.take(b); n > 0 {
				visit(b, n)
			}
		}
	}
}

// Blocks returns the basic blocks that are counted, by their number; none without Config.CountBlocks.
func (m *Module) Blocks() []meter.Block {
	if m.blockCounts == nil {
		return nil
	}
	return m.blockCounts.blocks
}

// InitialCounts returns how often each block ran while the module was initialised, without the warm-up decisions.
func (m *Module) InitialCounts() []uint64 {
	if m.blockCounts == nil {
		return nil
	}
	return m.blockCounts.initial
}

// TakeCounts visits the blocks that have run since the last call, with their counts. No decision may be under way. A block may be
// visited several times.
func (m *Module) TakeCounts(visit func(block int, n uint64)) {
	if m.blockCounts == nil {
		return
	}
	m.pool.mu.Lock()
	defer m.pool.mu.Unlock()
	for i := range m.pool.all {
		m.blockCounts.take(i, visit)
	}
	m.blockCounts.takeGone(visit)
}
