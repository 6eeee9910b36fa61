package policy

import "fmt"

// image is the first state of a module's instances: after its initialisation and one warm-up decision of each kind. It never
// contains anything of a real message.
type image struct {
	memory             []byte
	globals            []uint64
	region, regionSize uint32
	shared             sharedImage // the memory again, if the system can map it copy-on-write
}

func (g *image) isShared() bool { return g != nil && g.shared != (sharedImage{}) }

// takeImage copies the state of an instance.
func takeImage(i *instance) (*image, error) {
	view, ok := i.memory.Read(0, i.memory.Size())
	if !ok {
		return nil, fmt.Errorf("read the memory of %d bytes", i.memory.Size())
	}
	g := &image{memory: append([]byte(nil), view...), region: i.region, regionSize: i.regionSize}
	for _, global := range i.globals {
		g.globals = append(g.globals, global.Get())
	}
	return g, nil
}

// reset returns the instance to its first state and reports whether it could: memory that has grown cannot shrink, and
// an instance that has closed itself cannot be used again.
func (i *instance) reset() bool {
	g := i.module.image
	if g == nil || i.wasm.IsClosed() || int(i.memory.Size()) != len(g.memory) {
		return false
	}
	if !i.backing.reset() {
		i.memory.Write(0, g.memory)
	}
	for k, global := range i.globals {
		global.Set(g.globals[k])
	}
	i.settle(g)
	i.stats.resets.Store(i.stats.resets.Load() + 1)
	return true
}

// settle records that the instance is in its first state.
func (i *instance) settle(g *image) {
	i.depth.Set(uint64(i.module.limits.Depth))
	i.region, i.regionSize = g.region, g.regionSize
	i.clean, i.broken, i.since = true, false, 0
	i.resetAt = i.module.host.clock()
}

// adopt brings a new instance into the first state without running its initialisation.
func (i *instance) adopt(g *image) error {
	have := i.memory.Size()
	if missing := (len(g.memory) - int(have)) >> 16; missing > 0 {
		if _, ok := i.memory.Grow(uint32(missing)); !ok {
			return fmt.Errorf("grow the memory by %d pages", missing)
		}
	}
	if int(i.memory.Size()) != len(g.memory) {
		return fmt.Errorf("the memory has %d bytes in place of %d", i.memory.Size(), len(g.memory))
	}
	if !i.backing.attach(g) {
		i.memory.Write(0, g.memory)
	}
	for k, global := range i.globals {
		global.Set(g.globals[k])
	}
	i.settle(g)
	return nil
}
