package policy

import (
	"sync"

	"github.com/flynnhost/flynn/host/policy/meter"
)

// blockCounts counts how often the basic blocks of a module run, in all of its instances. The counters are outside of the instances, so that
// counting changes neither their memory nor their fuel nor their resets.
type blockCounts struct {
	blocks  []meter.Block
	initial []uint64 // counts of the initialisation

	mu     sync.Mutex
	counts []uint64
	ran    []int // the blocks whose count is not 0
}

func newBlockCounts(blocks []meter.Block) *blockCounts {
	return &blockCounts{blocks: blocks, initial: make([]uint64, len(blocks)), counts: make([]uint64, len(blocks))}
}

// hostCount is called by a module whose blocks are counted at the start of each block.
func hostCount(i *instance, stack []uint64) {
	if !i.counting {
		return
	}
	c, block := i.module.blockCounts, int(uint32(stack[0]))
	c.mu.Lock()
	if c.counts[block] == 0 {
		c.ran = append(c.ran, block)
	}
	c.counts[block]++
	c.mu.Unlock()
}

// take visits the blocks that have run and sets their counters to zero.
func (c *blockCounts) take(visit func(block int, n uint64)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, block := range c.ran {
		visit(block, c.counts[block])
		c.counts[block] = 0
	}
	c.ran = c.ran[:0]
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

// TakeCounts visits the blocks that have run since the last call, with their counts.
func (m *Module) TakeCounts(visit func(block int, n uint64)) {
	if m.blockCounts != nil {
		m.blockCounts.take(visit)
	}
}
