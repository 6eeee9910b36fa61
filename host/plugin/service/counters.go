package service

import (
	"context"
	"regexp"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/flynnhost/flynn/sdk/proto/hostv1"
)

var validCounter = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z0-9_]{1,40}$`) })

// Count implements hostv1.HostServer.
func (s *Server) Count(ctx context.Context, r *hostv1.CountRequest) (*hostv1.CountResponse, error) {
	if !validCounter().MatchString(r.GetName()) {
		return nil, status.Error(codes.InvalidArgument, "the name of a counter has 1 to 40 of a-z, 0-9 and _")
	}
	if r.GetAdd() < 1 || r.GetAdd() > maxCount {
		return nil, status.Errorf(codes.InvalidArgument, "a counter grows by 1 to %d", maxCount)
	}
	g := guestOf(ctx)
	if !s.named(g, r.GetName()) {
		return nil, tooMuch("the instance has too many counters", time.Hour)
	}
	s.config.Events.Publish(Counted{g.instance, r.GetName(), r.GetAdd()})
	return &hostv1.CountResponse{}, nil
}

// named reports whether an instance may have a counter of that name: each costs memory as long as the host runs.
func (s *Server) named(g *guest, name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !g.counters[name] && len(g.counters) >= maxCounters {
		return false
	}
	g.counters[name] = true
	return true
}
