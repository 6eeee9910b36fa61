package launch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/flynnhost/flynn/host/sandbox/compose"
	"github.com/flynnhost/flynn/host/sandbox/driver"
	"github.com/flynnhost/flynn/host/sandbox/machine"
	"github.com/flynnhost/flynn/host/sandbox/spec"
)

// A service that fails while commands may use it is started again when the next command comes, which waits for it and learns of it.
// Nothing is started while nobody needs it. One that ends with exit code 0 has done its work, and stays as it is.

// maxRevivals is how many times one service is started again beside one container.
const maxRevivals = 3

// begins notes that a service is being started.
func (s *service) begins() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.since, s.ended = time.Now(), nil
}

// watch waits for a service to end, which none should while commands may run, unless another has waited for that.
func (p *project) watch(s *service) {
	s.mu.Lock()
	id := s.id
	s.mu.Unlock()
	var now driver.Condition
	for pause := firstLook; ; pause = min(2*pause, lastLook) {
		err := p.driver.AwaitEnd(p.life, id)
		if err == nil {
			now, err = p.driver.Condition(p.life, id)
		}
		if p.life.Err() != nil {
			return
		}
		if err == nil && !now.Running {
			break
		}
		select { // the engine is away for a while
		case <-time.After(pause):
		case <-p.life.Done():
			return
		}
	}
	if p.enterEnd(s, now) {
		p.engine.Log.Warn("a service of a sandbox has ended", "service", s.Name, "container", id, "exit_code", now.ExitCode, "oom", now.OOM,
			"removed", now.Gone, "output", p.lastWords(id))
	}
}

// enterEnd notes the end of a service, and reports whether somebody has to attend to it. Both are seen together.
func (p *project) enterEnd(s *service, end driver.Condition) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = &end
	if s.ends && end.ExitCode == 0 {
		return false
	}
	p.fallen = append(p.fallen, s)
	return true
}

// Attend implements container.Services. The notices go to the callers that wait under ctx, and to the next that asks for News.
func (p *project) Attend(ctx context.Context) {
	select {
	case p.attending <- struct{}{}:
	case <-ctx.Done():
		return
	case <-p.life.Done():
		return
	}
	defer func() { <-p.attending }()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(p.life, cancel)()
	p.mu.Lock()
	fallen := p.fallen
	p.fallen = nil
	p.mu.Unlock()
	for _, s := range fallen {
		line := p.revive(ctx, s)
		machine.Notice(ctx, line)
		p.mu.Lock()
		p.news = append(p.news, line)
		p.mu.Unlock()
	}
}

// News implements container.Services.
func (p *project) News() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	news := p.news
	p.news = nil
	return news
}

// revive starts a service again if it has failed, and reports in a line how it went. The audience of ctx may leave before the service
// is healthy; its start goes on.
func (p *project) revive(ctx context.Context, s *service) string {
	s.mu.Lock()
	end := *s.ended
	s.mu.Unlock()
	line := fmt.Sprintf("service %s %s", s.Name, endOf(end))
	switch {
	case !end.Gone && !end.OOM && end.ExitCode == 0:
		return line
	case s.revived == maxRevivals:
		return fmt.Sprintf("%s; after %d new starts it is not started again: process.output of %s has what it said", line, maxRevivals, servicePrefix+s.Name)
	}
	machine.Notice(ctx, line+"; starting it again")
	if err := p.startAgain(s, end.Gone); err != nil {
		s.revived = maxRevivals
		s.mu.Lock()
		s.ended = &end
		s.mu.Unlock()
		return fmt.Sprintf("%s and cannot be started again: %s", line, machine.Reason(err))
	}
	s.revived++
	p.watching.Go(func() { p.watch(s) })
	if err := p.await(ctx, s.Name, state(compose.Dependency{})); err != nil {
		return fmt.Sprintf("%s; started again: %s", line, machine.Reason(err))
	}
	return line + " and was started again"
}

// startAgain starts the container that is there, with all that the service has written in it, or another where that one is gone.
func (p *project) startAgain(s *service, gone bool) error {
	ctx, cancel := context.WithTimeout(p.life, Timeout)
	defer cancel()
	if gone {
		return p.run(ctx, s)
	}
	sources, err := p.engine.openSources(ctx, spec.HostMountsOf(s.Service))
	if err != nil {
		return err
	}
	defer closeAll(sources)
	if !slices.Equal(pathsOf(sources), s.mounted) { // the engine mounts what the old paths lead to
		return errors.New("what it mounts was swapped for something else")
	}
	if err := p.engine.Driver.Start(ctx, s.id); err != nil {
		if now, unknown := p.driver.Condition(ctx, s.id); unknown == nil && now.Gone { // it was removed since
			return p.run(ctx, s)
		}
		return err
	}
	s.begins()
	if err := p.engine.lookAgain(ctx, sources, s.Binds); err != nil {
		return errors.Join(err, p.engine.Reaper.Remove(ctx, s.id))
	}
	return nil
}
