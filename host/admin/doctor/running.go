package doctor

import (
	"context"
)

// checkRunning reads what the running host reports.
func checkRunning(_ context.Context, in Input) (out []Finding) {
	if in.Running == nil {
		return nil
	}
	s := in.Running.Status
	if s.Halt != nil {
		out = append(out, find(Halted, "flynn resume", "everything is halted, by %s", s.Halt.By))
	}
	for _, c := range s.Channels {
		if !c.OK {
			out = append(out, find(ChannelDown, "flynn plugin logs "+c.Name, "channel %s is %s: %s", c.Name, c.State, c.Detail))
		}
	}
	for _, t := range s.Tools {
		if !t.OK {
			out = append(out, find(PluginDown, "flynn plugin logs "+t.Name, "provider of tools %s is %s: %s", t.Name, t.State, t.Detail))
		}
		for _, problem := range t.Problems {
			out = append(out, find(PluginDown, "flynn tool list", "provider of tools %s: %s", t.Name, problem))
		}
	}
	for _, p := range s.Policies {
		if !p.OK {
			out = append(out, find(PolicyFails, "flynn policy list", "policy %s is %s: %s", p.Name, p.State, p.Detail))
		}
	}
	for _, r := range in.Running.Repeats {
		out = append(out, find(LogRepeats, "flynn logs --level warn --area "+r.Area, "%d times within an hour: %s %s", r.Count, r.Message, r.Detail))
	}
	return out
}
