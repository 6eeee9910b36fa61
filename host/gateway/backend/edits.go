package backend

import (
	"context"
	"errors"
	"net/http"
	"sync"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/config/edit"
	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/store"
)

// Edits edits the file of the configuration in force, one request at a time.
type Edits struct {
	Path    string
	Getenv  func(string) string
	Checks  []config.Check
	Reloads gateway.Reloader

	mu sync.Mutex
}

// Edit changes the file and puts it in force. After an error both are as before.
func (e *Edits) Edit(ctx context.Context, change func(f *edit.File, c *config.Config) error) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	f, err := edit.Open(e.Path)
	if err != nil {
		return err
	}
	c, err := f.Load(e.Getenv, e.Checks...)
	if err != nil {
		return refused(err)
	}
	if err := change(f, c); err != nil {
		return refused(err)
	}
	_, err = f.Apply(ctx, e.Getenv, e.Checks, e.Reloads.Reload)
	return refused(err)
}

// refused is an error of an edit as the gateway answers it: a conflict if somebody else has edited the file, and otherwise what is wrong
// with the values, each by its key.
func refused(err error) error {
	var wrong config.Errors
	switch {
	case err == nil, errors.Is(err, store.ErrNotFound), errors.Is(err, store.ErrConflict):
		return err
	case errors.Is(err, edit.ErrChanged):
		return as(err, store.ErrConflict)
	case !errors.As(err, &wrong) || len(wrong) == 0:
		return gateway.NewProblem(http.StatusUnprocessableEntity, gateway.CodeNotAllowed, err.Error())
	}
	p := gateway.NewProblem(http.StatusUnprocessableEntity, gateway.CodeNotAllowed, "nothing is changed, because the file would be wrong: "+plain(wrong[0]))
	for _, w := range wrong[:min(len(wrong), maxFaults)] {
		p.Errors = append(p.Errors, gateway.Fault{Location: w.Key, Message: plain(w)})
	}
	return p
}

// maxFaults bounds the faults in an answer.
const maxFaults = 20

// plain is an error of the configuration without its place in the file.
func plain(e config.Error) string {
	if e.Hint == "" {
		return e.Problem
	}
	return e.Problem + " (" + e.Hint + ")"
}
