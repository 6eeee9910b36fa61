package doctor

import (
	"context"
	"errors"
	"sync"

	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/store"
)

// Self examines the host that it is part of, for the gateway.
type Self struct {
	Subject Subject
	looking sync.Mutex
}

var _ gateway.Doctor = (*Self)(nil)

// Examine implements gateway.Doctor.
func (s *Self) Examine(ctx context.Context) (gateway.Examination, error) {
	if !s.looking.TryLock() {
		return gateway.Examination{}, asked{errors.New("the doctor is looking already: ask again in 20 seconds"), store.ErrConflict}
	}
	defer s.looking.Unlock()
	r, err := Run(ctx, s.Subject)
	return gateway.Examination{Findings: shown(r.Findings), Unexamined: r.Unexamined, Weaker: r.Weaker}, err
}

// Mend implements gateway.Doctor.
func (s *Self) Mend(ctx context.Context, code string) ([]gateway.Finding, error) {
	mended, err := Mend(ctx, s.Subject, Code(code))
	switch {
	case errors.Is(err, ErrNoCode):
		err = asked{err, store.ErrNotFound}
	case errors.Is(err, ErrPerson):
		err = asked{err, store.ErrConflict}
	}
	return shown(mended), err
}

// asked is an error with a kind from which the gateway chooses the status.
type asked struct {
	error
	kind error
}

func (a asked) Unwrap() []error { return []error{a.error, a.kind} }

// maxShown bounds the findings in an answer.
const maxShown = 1000

func shown(all []Finding) []gateway.Finding {
	out := []gateway.Finding{}
	for _, f := range all[:min(len(all), maxShown)] {
		severity := "wrong"
		if f.Weak {
			severity = "weak"
		}
		out = append(out, gateway.Finding{
			Code: string(f.Code), Area: string(f.Area), Severity: severity, What: f.What, Why: f.Why, Mend: f.Mend, Command: f.Command, Page: f.Page,
			File: f.File, Line: f.Line, Key: f.Key, Fixable: f.Fixable,
		})
	}
	return out
}
