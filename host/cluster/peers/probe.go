package peers

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/flynnhost/flynn/host/store"
)

const (
	// probeEvery is the time between two looks at the other hosts.
	probeEvery = 5 * time.Second
	// probes is how many hosts are looked at at a time.
	probes = 8
)

// reach reports whether another host was reached when it was looked at last.
type reach struct {
	address string
	problem string // empty if it was reached
}

// Reach reports whether a host was reached when it was looked at last, at an address, and what the problem was.
func (n *Network) Reach(host string) (address, problem string, known bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	r, known := n.reaches[host]
	return r.address, r.problem, known
}

// probe looks at the other hosts now and then, until ctx ends, and cuts the connections with those that are not alive any more.
func (n *Network) probe(ctx context.Context) {
	tick := time.NewTicker(probeEvery)
	defer tick.Stop()
	for {
		if all, err := n.cfg.Store.Peers(ctx); err == nil {
			n.keep(all)
			n.look(ctx, all)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// keep cuts the connections with hosts that are not among those that are alive.
func (n *Network) keep(all []store.Peer) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for c, fingerprint := range n.proven {
		if !slices.ContainsFunc(all, func(p store.Peer) bool { return p.Fingerprint == fingerprint }) {
			c.Close()
		}
	}
}

// look finds out which hosts are reached.
func (n *Network) look(ctx context.Context, all []store.Peer) {
	_, own := n.Self()
	next, turn := map[string]reach{}, make(chan struct{}, probes)
	var mu sync.Mutex
	var work sync.WaitGroup
	for _, p := range all {
		if p.Fingerprint == own {
			continue
		}
		turn <- struct{}{}
		work.Go(func() {
			defer func() { <-turn }()
			r := reach{address: p.Address}
			if err := n.ping(ctx, p); err != nil {
				r.problem = err.Error()
			}
			mu.Lock()
			defer mu.Unlock()
			next[p.Host] = r
		})
	}
	work.Wait()
	if ctx.Err() != nil {
		return
	}
	n.mu.Lock()
	before := n.reaches
	n.reaches = next
	n.mu.Unlock()
	for name, r := range next {
		switch was, known := before[name]; {
		case r.problem != "" && was.problem == "":
			n.cfg.Log.Warn("cannot reach another host", "host", name, "address", r.address, "error", r.problem,
				"hint", "see that [cluster] listen and advertise of that host lead to it from here; until then its answers are shown when they are written")
		case r.problem == "" && known && was.problem != "":
			n.cfg.Log.Info("another host is reached again", "host", name, "address", r.address)
		}
	}
}

func (n *Network) ping(ctx context.Context, p store.Peer) error {
	ctx, cancel := context.WithTimeout(ctx, handshake)
	defer cancel()
	l, err := n.dial(ctx, p, ping, nil)
	if err != nil {
		return err
	}
	defer l.Close()
	return l.answered()
}
