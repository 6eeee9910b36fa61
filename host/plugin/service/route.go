package service

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/time/rate"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Bounds of webhooks.
const (
	maxHookPath    = 200 // bytes
	maxRoutes      = 16  // of one instance
	maxHookCalls   = 32  // requests of one instance at the same time
	maxLongCalls   = 4   // of these, with a body above maxHookBody
	hooksPerSecond = 50  // accepted requests at one path, on average
	hooksAtOnce    = 200
)

// route is a path that an instance serves, or has served and will serve again: while its plugin restarts, platforms are asked to try
// again. Other paths are not found.
type route struct {
	instance, path string
	rate           *rate.Limiter
	hook           *hook     // nil while it is not served
	since          time.Time // of the last change of hook
}

// prefix is the prefix of all paths.
const prefix = "/hooks/"

// HookPath is the path of a route in its URL.
func HookPath(instance, path string) string {
	if path == "" {
		return prefix + instance
	}
	return prefix + instance + "/" + path
}

// validHookPath allows paths that mean the same to every proxy: plain segments, without encoding, empty segments, or segments of dots.
func validHookPath(path string) bool {
	if path == "" {
		return true
	}
	if len(path) > maxHookPath {
		return false
	}
	for segment := range strings.SplitSeq(path, "/") {
		if segment == "" || strings.Trim(segment, ".") == "" || strings.ContainsFunc(segment, func(r rune) bool {
			return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~", r)
		}) {
			return false
		}
	}
	return true
}

// claim gives a path to a hook. A later process of the instance takes it from an earlier one, never the other way round, so that an
// upgrade can start the new process beside the old one.
func (s *Server) claim(h *hook) (r *route, err error) {
	var forgotten []*route
	defer func() { s.unremember(forgotten) }()
	s.mu.Lock()
	defer s.mu.Unlock()
	key := HookPath(h.guest.instance, h.path)
	r = s.routes[key]
	if r == nil {
		forgotten = s.makeRoom(h.guest.instance)
	}
	switch {
	case r == nil && len(s.routesOf(h.guest.instance)) >= maxRoutes:
		return nil, status.Errorf(codes.ResourceExhausted, "an instance serves at most %d paths", maxRoutes)
	case r == nil:
		r = newRoute(h.guest.instance, h.path)
		s.routes[key] = r
	case r.hook == nil:
	case r.hook.guest.number == h.guest.number:
		return nil, status.Error(codes.AlreadyExists, "the path is served already")
	case r.hook.guest.number > h.guest.number:
		return nil, status.Error(codes.FailedPrecondition, "a later process of the instance serves the path")
	default:
		r.hook.end()
	}
	r.hook, r.since = h, time.Now()
	return r, nil
}

func newRoute(instance, path string) *route {
	return &route{instance: instance, path: path, rate: rate.NewLimiter(hooksPerSecond, hooksAtOnce), since: time.Now()}
}

// routesOf are the routes of an instance, oldest change first. s.mu is held.
func (s *Server) routesOf(instance string) (all []*route) {
	for _, r := range s.routes {
		if r.instance == instance {
			all = append(all, r)
		}
	}
	slices.SortFunc(all, func(a, b *route) int { return a.since.Compare(b.since) })
	return all
}

// makeRoom drops the route that has not been served for the longest time, if there are maxRoutes. s.mu is held.
func (s *Server) makeRoom(instance string) []*route {
	all := s.routesOf(instance)
	i := slices.IndexFunc(all, func(r *route) bool { return r.hook == nil })
	if len(all) < maxRoutes || i < 0 {
		return nil
	}
	delete(s.routes, HookPath(instance, all[i].path))
	return all[i : i+1]
}

// leave ends a hook's claim on its route, if it still has one.
func (s *Server) leave(r *route, h *hook) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.hook == h {
		r.hook, r.since = nil, time.Now()
	}
}

// find returns the route at a path and the hook that serves it now.
func (s *Server) find(path string) (*route, *hook) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.routes[strings.TrimSuffix(path, "/")]
	if r == nil {
		return nil, nil
	}
	return r, r.hook
}

// Keep forgets the paths of all other instances, which are not configured any more.
func (s *Server) Keep(instances []string) {
	s.forget(func(r *route) bool { return !slices.Contains(instances, r.instance) })
}

func (s *Server) forget(which func(*route) bool) {
	var forgotten []*route
	defer func() { s.unremember(forgotten) }()
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, r := range s.routes {
		if !which(r) {
			continue
		}
		if r.hook != nil {
			r.hook.end()
		}
		delete(s.routes, key)
		forgotten = append(forgotten, r)
	}
}

// shelf is the instance name under which the store keeps the paths. No instance can have that name.
const shelf = ".webhooks"

// diskTimeout bounds reads and writes of stored paths.
const diskTimeout = 10 * time.Second

// remember reads the stored paths.
func (s *Server) remember(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, diskTimeout)
	defer cancel()
	for after := ""; ; {
		keys, err := s.config.Values.ListValues(ctx, shelf, "", after, maxList)
		if err != nil {
			return fmt.Errorf("read the paths of webhooks: %w", err)
		}
		if len(keys) == 0 {
			return nil
		}
		for _, key := range keys {
			instance, path, _ := strings.Cut(key, "/")
			s.routes[HookPath(instance, path)] = newRoute(instance, path)
		}
		after = keys[len(keys)-1]
	}
}

// keep stores the path of a route for the next start of the host.
func (s *Server) keep(ctx context.Context, r *route) error {
	return s.config.Values.SetValue(ctx, shelf, r.instance+"/"+r.path, nil, valueRoom())
}

// unremember deletes stored paths. After a failure such a path answers "try again" instead of "not found", which is harmless.
func (s *Server) unremember(routes []*route) {
	ctx, cancel := context.WithTimeout(context.Background(), diskTimeout)
	defer cancel()
	for _, r := range routes {
		if err := s.config.Values.DeleteValue(ctx, shelf, r.instance+"/"+r.path); err != nil {
			s.log.Warn("cannot forget the path of a webhook", "instance", r.instance, "path", r.path, "error", err)
		}
	}
}
