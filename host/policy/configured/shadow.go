package configured

import (
	"errors"
	"fmt"
	"slices"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/config/edit"
	"github.com/flynnhost/flynn/host/policy"
)

// SetShadow makes a policy of a file a shadow, or has it decide again. The caller saves the file, which checks it.
func SetShadow(f *edit.File, c *config.Config, name string, on bool) error {
	i := slices.IndexFunc(c.Policies, func(p config.Policy) bool { return p.Name == name })
	if i < 0 {
		return fmt.Errorf("%w %q", policy.ErrUnknown, name)
	}
	at := func(key string) []string { return []string{"policies", fmt.Sprintf("[%d]", i), key} }
	if on {
		return f.Set(true, at("shadow")...)
	}
	var errs []error
	for _, key := range []string{"shadow_of", "shadow"} {
		if f.Has(at(key)...) {
			errs = append(errs, f.Remove(at(key)...))
		}
	}
	return errors.Join(errs...)
}
