package compose

import (
	"fmt"
	"time"

	"go.yaml.in/yaml/v3"
)

// health parses a healthcheck.
func (r *reader) health(n *yaml.Node, key string) *Health {
	h := &Health{}
	disabled := false
	for _, e := range r.mapping(n, key) {
		at := join(key, e.key)
		switch e.key {
		case "test":
			h.Test = r.healthTest(e.value, at)
		case "interval":
			h.Interval = r.duration(e.value, at)
		case "timeout":
			h.Timeout = r.duration(e.value, at)
		case "start_period":
			h.StartPeriod = r.duration(e.value, at)
		case "retries":
			h.Retries = int(r.integer(e.value, at, 1, 1000))
		case "disable":
			disabled = r.bool(e.value, at)
		default:
			r.refuse(e.line, at, "it is not supported", "remove it; supported are disable, interval, retries, start_period, test, timeout")
		}
	}
	if disabled {
		h.Test = []string{"NONE"}
	}
	return h
}

// healthTest parses a line for a shell, or the engine's own form.
func (r *reader) healthTest(n *yaml.Node, key string) []string {
	f := r.follow(n)
	if f.Kind == yaml.ScalarNode {
		line, ok := r.text(n, key)
		if !ok {
			return nil
		}
		return []string{"CMD-SHELL", line}
	}
	test := r.texts(n, key)
	switch {
	case len(test) == 1 && test[0] == "NONE", len(test) == 2 && test[0] == "CMD-SHELL", len(test) > 1 && test[0] == "CMD":
		return test
	}
	r.refuse(f.Line, key, "it is not a test", `begin the list with "CMD" and a program, "CMD-SHELL" and one line, or "NONE"`)
	return nil
}

// maxPause bounds every duration in a healthcheck.
const maxPause = time.Hour

func (r *reader) duration(n *yaml.Node, key string) time.Duration {
	s, ok := r.text(n, key)
	if !ok {
		return 0
	}
	d, err := time.ParseDuration(s)
	if err != nil || d < time.Millisecond || d > maxPause {
		r.refuse(r.follow(n).Line, key, fmt.Sprintf("%q is not a duration up to %v", s, maxPause), `write one such as "10s"`)
		return 0
	}
	return d
}
