package agent

import (
	"fmt"
	"slices"
	"testing"

	"github.com/flynnhost/flynn/host/tool"
)

// TestLabelsCannotBeCrowdedOut: a session that has seen too much to list it all still says of what sort it was.
func TestLabelsCannotBeCrowdedOut(t *testing.T) {
	var s session
	for i := range 300 {
		s.label([]string{fmt.Sprintf("file:%03d", i)})
	}
	s.label([]string{"web:evil.example"})
	for _, want := range []string{"web:*", "file:*"} {
		if !slices.Contains(s.labels, want) {
			t.Errorf("%s is missing among %d labels", want, len(s.labels))
		}
	}
	for i := range 10_000 {
		s.label([]string{fmt.Sprintf("kind%d:x", i)})
	}
	if len(s.labels) > 2*tool.MaxLabels+1 {
		t.Errorf("%d labels", len(s.labels))
	}
}
