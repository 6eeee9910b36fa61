package main

import "errors"

// verified is the JSON of verify for one plugin or policy.
type verified struct {
	Name    string `json:"name"`
	Version string `json:"version,omitempty"`
	OK      bool   `json:"ok"`
	Problem string `json:"problem,omitempty"`
}

// verifyAll verifies the names, or without names everything in list, before it reports; its error holds every problem.
func verifyAll[T any](
	o *output, names []string, list func() ([]T, error), nameOf func(T) string, verify func(name string) (version string, err error),
) error {
	if len(names) == 0 {
		all, err := list()
		if err != nil {
			return err
		}
		for _, item := range all {
			names = append(names, nameOf(item))
		}
	}
	results := []verified{}
	var problems error
	for _, name := range names {
		version, err := verify(name)
		r := verified{Name: name, Version: version, OK: err == nil}
		if err != nil {
			r.Problem = err.Error()
			problems = errors.Join(problems, err)
		}
		results = append(results, r)
	}
	if o.asJSON {
		return errors.Join(o.json(results), asReported(problems))
	}
	return problems
}
