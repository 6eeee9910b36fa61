package host

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/flynnhost/flynn/host/store"
	"github.com/flynnhost/flynn/host/tool/approval"
)

// What people are told of an answer that came too late has nothing of the store in it.
func TestALateAnswerIsRefusedInWords(t *testing.T) {
	for _, cause := range []error{approval.ErrDecided, approval.ErrExpired} {
		err := answered(fmt.Errorf("decide request A: %w", cause))
		if !errors.Is(err, store.ErrConflict) || !errors.Is(err, cause) || strings.Contains(err.Error(), store.ErrConflict.Error()) {
			t.Errorf("%v is told as %v", cause, err)
		}
	}
}
