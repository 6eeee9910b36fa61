package launch

import (
	"context"
	"fmt"
	"strings"

	"github.com/flynnhost/flynn/host/sandbox/machine"
)

// servicePrefix begins the ids of services among a session's processes: people and agents can inspect them like processes, but not end
// them.
const servicePrefix = "service:"

// maxServiceOutput is at least what the engine keeps of a service's output.
const maxServiceOutput = 512 << 10

// Processes implements container.Services.
func (p *project) Processes() []machine.Process {
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

// service returns the service with a process id, or nil.
func (p *project) service(id string) *service {
	for _, s := range p.services {
		if servicePrefix+s.Name == id {
			return s
		}
	}
	return nil
}

// Has implements container.Services.
func (p *project) Has(id string) bool { return p.service(id) != nil }

// Output implements container.Services with the output that the engine keeps. Offsets count from the first byte that is still kept.
func (p *project) Output(ctx context.Context, id string, offset int64, n int) (machine.Output, error) {
	s := p.service(id)
	s.mu.Lock()
	engineID := s.id
	s.mu.Unlock()
	kept, err := p.driver.LastOutput(ctx, engineID, maxServiceOutput)
	if err != nil {
		return machine.Output{}, fmt.Errorf("read output of service %s: %w", s.Name, err)
	}
	offset = min(max(offset, 0), int64(len(kept)))
	data := kept[offset:]
	data = data[:min(len(data), max(n, 0))]
	return machine.Output{Data: data, Offset: offset, Next: offset + int64(len(data)), Running: s.process().Running}, nil
}
