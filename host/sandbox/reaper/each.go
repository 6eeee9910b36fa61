package reaper

import (
	"errors"
	"sync"
)

// together is how many things Each deals with at a time.
const together = 4

// Each does the same for all, some at a time.
func Each[T any](all []T, do func(T) error) error {
	var running sync.WaitGroup
	slots := make(chan struct{}, together)
	errs := make([]error, len(all))
	for i, one := range all {
		slots <- struct{}{}
		running.Go(func() {
			defer func() { <-slots }()
			errs[i] = do(one)
		})
	}
	running.Wait()
	return errors.Join(errs...)
}
