package sqlstore

import (
	"errors"
	"fmt"

	"github.com/flynnhost/flynn/host/buildinfo"
)

// Stamp says who has written a store.
type Stamp struct {
	Schema int    // its version; 0 for a store that does not exist yet
	Oldest int    // the oldest version whose Flynn can work with it beside others, in Postgres
	Writer string // the version of Flynn that wrote last; "" if it is not recorded
}

// ErrNewer is matched by the error of a store that a newer Flynn has written.
var ErrNewer = errors.New("the store is of a newer flynn")

type newerError string

func (e newerError) Error() string      { return string(e) }
func (newerError) Is(target error) bool { return target == ErrNewer }

// Newer returns the error of a store with a schema above the version that this Flynn knows; remedy is what to do instead of installing the
// newer one again.
func (s Stamp) Newer(know int, remedy string) error {
	if s.Schema <= know {
		return nil
	}
	writer := "a newer flynn"
	if s.Writer != "" {
		writer = fmt.Sprintf("flynn %.64q", s.Writer)
	}
	return newerError(fmt.Sprintf("the store was written by %s and has schema version %d; this is flynn %q, which knows versions up to %d: "+
		"install the newer flynn again, or %s", writer, s.Schema, buildinfo.Version(), know, remedy))
}
