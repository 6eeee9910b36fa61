package store

import "context"

// Part is a policy or a plugin that a person has installed, as the hosts that share the store agree on it.
type Part struct {
	Kind, Name string
	// Body describes it; it is empty after its removal.
	Body []byte
	// Host made the last change, and Revision is its number. It is 0 if there has been none.
	Host     string
	Revision int64
}

// Parts keeps the policies and plugins that the hosts agree on. Package parts installs them.
type Parts interface {
	// Parts returns all parts by kind and name, and the revision of the last change of any.
	Parts(ctx context.Context) (all []Part, revision int64, err error)
	// SetPart changes a part whose revision is that of p, and tells all hosts. It returns the new revision, or ErrConflict if another host
	// was faster.
	SetPart(ctx context.Context, p Part) (revision int64, err error)
	// Follow makes digests those that all hosts agree on, if they have agreed on before, and then have changed nothing but parts, up to a
	// revision that is still the last one. A host with the digests of before keeps getting keys while no host that is alive, and is not
	// drained, has the new ones.
	Follow(ctx context.Context, before, digests string, revision int64) error
}
