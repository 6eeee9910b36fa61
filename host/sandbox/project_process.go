package sandbox

import (
	"context"
	"fmt"
	"strings"

	"github.com/flynnhost/flynn/host/sandbox/machine"
)

// servicePrefix begins the ids of services among a session's processes: people and agents look at them as at processes, but
// nobody ends one.
const servicePrefix = "service:"

// maxServiceOutput is what the engine keeps of a service's output, and more.
const maxServiceOutput = 512 << 10

// processes are the services as they are now.
func (p *project) processes() []machine.Process {
	if p == nil {
		return nil
	}
	var list []machine.Process
	for _, s := range p.services {
		list = append(list, s.process())
	}
	return list
}

func (s *service) process() machine.Process {
	s.mu.Lock()
	defer s.mu.Unlock()
	info := machine.Process{
		ID: servicePrefix + s.Name, Script: strings.Join(append([]string{s.Image}, s.Command...), " "), Started: s.since, Running: s.ended == nil,
	}
	if e := s.ended; e != nil {
		info.Result = &machine.Result{ExitCode: e.ExitCode, OOM: e.OOM}
	}
	return info
}

// service finds one by its id among processes.
func (p *project) service(id string) (*service, bool) {
	name, is := strings.CutPrefix(id, servicePrefix)
	if p == nil || !is {
		return nil, false
	}
	for _, s := range p.services {
		if s.Name == name {
			return s, true
		}
	}
	return nil, false
}

// output reads what the engine keeps of a service's output. Offsets count from the first byte that is kept now.
func (p *project) output(ctx context.Context, s *service, offset int64, n int) (machine.Output, error) {
	s.mu.Lock()
	id := s.id
	s.mu.Unlock()
	kept, err := p.driver.LastOutput(ctx, id, maxServiceOutput)
	if err != nil {
		return machine.Output{}, fmt.Errorf("read output of service %s: %w", s.Name, err)
	}
	offset = min(max(offset, 0), int64(len(kept)))
	data := kept[offset:]
	data = data[:min(len(data), max(n, 0))]
	return machine.Output{Data: data, Offset: offset, Next: offset + int64(len(data)), Running: s.process().Running}, nil
}
