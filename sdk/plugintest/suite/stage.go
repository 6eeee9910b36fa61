package suite

import (
	"context"
	"strings"
	"sync"

	"github.com/flynnhost/flynn/sdk/plugintest/fake"
)

// stage is a fake platform and its reports.
type stage struct {
	ready    fake.Ready
	platform fake.Platform

	mu      sync.Mutex
	seen    []fake.Report
	changed chan struct{} // closed and replaced with each report
}

// maxReports bounds the kept reports of a platform; a check needs a handful.
const maxReports = 10_000

func (s *stage) add(r fake.Report) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.seen) < maxReports {
		s.seen = append(s.seen, r)
	}
	close(s.changed)
	s.changed = make(chan struct{})
}

// count returns how many reports fit; changed is closed when there may be more.
func (s *stage) count(fits func(fake.Report) bool) (n int, changed <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.seen {
		if fits(r) {
			n++
		}
	}
	return n, s.changed
}

// await waits until at least that many reports fit, and returns how many do.
func (s *stage) await(ctx context.Context, least int, fits func(fake.Report) bool) (int, error) {
	for {
		n, changed := s.count(fits)
		if n >= least {
			return n, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return n, context.Cause(ctx)
		}
	}
}

func shows(text string) func(fake.Report) bool {
	return func(r fake.Report) bool { return r.Shown != nil && strings.Contains(r.Shown.Text, text) }
}

func types(r fake.Report) bool { return r.Typing }
