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

// A service that fails while commands may use it is restarted by the next command, which waits for it and is told. Nothing is restarted
// while nobody needs it. A service that ends with exit code 0 has finished and is not restarted.

// maxRevivals bounds the restarts of one service beside one container.
const maxRevivals = 3

// begins records that a service is being started.
func (s *service) begins() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.since, s.ended = time.Now(), nil
}

// watch waits for a service to end, which is unexpected while commands may run unless another service depends on it.
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
		select { // the engine does not answer for a while
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

// enterEnd records the end of a service and reports whether it has to be handled. Both happen under one lock.
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

// Attend implements container.Services. The news goes to the callers that wait under ctx, and to the next caller of News.
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

// revive restarts a service if it has failed, and returns a line about the result. The audience of ctx may leave before the service is
// healthy; its start continues.
func (p *project) revive(ctx context.Context, s *service) string {
	s.mu.Lock()
	end := *s.ended
	s.mu.Unlock()
	line := fmt.Sprintf("service %s %s", s.Name, endOf(end))
	switch {
	case !end.Gone && !end.OOM && end.ExitCode == 0:
		return line
	case s.revived == maxRevivals:
		return fmt.Sprintf("%s; after %d restarts it is not restarted again: see process.output of %s", line, maxRevivals, servicePrefix+s.Name)
	}
	machine.Notice(ctx, line+"; starting it again")
	if err := p.startAgain(s, end.Gone); err != nil {
		s.revived = maxRevivals
		s.mu.Lock()
		s.ended = &end
		s.mu.Unlock()
		return fmt.Sprintf("%s and cannot be restarted: %s", line, machine.Reason(err))
	}
	s.revived++
	p.watching.Go(func() { p.watch(s) })
	if err := p.await(ctx, s.Name, state(compose.Dependency{})); err != nil {
		return fmt.Sprintf("%s; restarted: %s", line, machine.Reason(err))
	}
	return line + " and was started again"
}

// startAgain restarts the existing container, which keeps its files, or creates another one if it is gone.
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
		return errors.New("a folder that it mounts was replaced")
	}
	if err := p.engine.Driver.Start(ctx, s.id); err != nil {
		if now, unknown := p.driver.Condition(ctx, s.id); unknown == nil && now.Gone { // it was removed meanwhile
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
