package compose

import (
	"fmt"
	"slices"

	"go.yaml.in/yaml/v3"
)

// dependencies parses a list of names, or a mapping of names to conditions.
func (r *reader) dependencies(n *yaml.Node, key string) []Dependency {
	var list []Dependency
	if f := r.follow(n); f.Kind == yaml.SequenceNode {
		for _, name := range r.texts(n, key) {
			list = append(list, Dependency{Service: name})
		}
		return list
	}
	for _, e := range r.mapping(n, key) {
		d := Dependency{Service: e.key}
		for _, setting := range r.mapping(e.value, join(key, e.key)) {
			at := join(key, e.key+"."+setting.key)
			condition, _ := r.text(setting.value, at)
			switch {
			case setting.key != "condition":
				r.refuse(setting.line, at, "it is not supported", "keep condition only")
			case condition == "service_healthy":
				d.Healthy = true
			case condition == "service_completed_successfully":
				d.Ended = true
			case condition != "service_started":
				r.refuse(setting.line, at, fmt.Sprintf("no such condition %q", condition), "write service_started, service_healthy or service_completed_successfully")
			}
		}
		list = append(list, d)
	}
	return list
}

// ordered puts services behind those that they depend on, and otherwise keeps the order of the file.
func (r *reader) ordered(services []Service) []Service {
	byName := map[string]*Service{}
	for i := range services {
		byName[services[i].Name] = &services[i]
	}
	var sorted []Service
	state := map[string]int{} // 1: being visited, 2: placed
	var place func(s *Service) bool
	place = func(s *Service) bool {
		if state[s.Name] != 0 {
			return state[s.Name] == 2
		}
		state[s.Name] = 1
		for _, d := range s.DependsOn {
			other := byName[d.Service]
			switch {
			case other == nil:
				r.refuse(s.Line, "services."+s.Name+".depends_on", fmt.Sprintf("no service %q", d.Service), "correct the name, or remove it")
			case d.Healthy && !other.checked():
				r.refuse(s.Line, "services."+s.Name+".depends_on", fmt.Sprintf("service %q has its healthcheck disabled", d.Service), "remove disable, or wait for service_started")
			case !place(other):
				r.refuse(s.Line, "services."+s.Name+".depends_on", fmt.Sprintf("services %q and %q wait for each other", s.Name, d.Service), "remove one of the two")
				return true // reported once
			}
		}
		state[s.Name] = 2
		sorted = append(sorted, *s)
		return true
	}
	for i := range services {
		place(&services[i])
	}
	return sorted
}

// checked reports whether the service may have a health check: one in the file, or possibly one in the image.
func (s *Service) checked() bool {
	return s.Health == nil || !slices.Equal(s.Health.Test, []string{"NONE"})
}
