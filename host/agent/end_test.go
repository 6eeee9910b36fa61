package agent

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/flynnhost/flynn/host/model"
)

func TestForPeople(t *testing.T) {
	for _, tt := range []struct {
		name string
		err  error
		want string
	}{
		{"ours", fmt.Errorf("end: %w", plainError("the turn used its 4 steps")), "the turn used its 4 steps."},
		{"a defect", errors.New("open /srv/secret: denied"), "inside the host"},
		{"busy", &model.Error{Kind: model.RateLimited}, "too busy"},
		{"away", &model.Error{Kind: model.Cut}, "could not be reached"},
		{"no answer", &model.Error{Kind: model.BadAnswer}, "no answer that can be read"},
		{"key", &model.Error{Kind: model.Auth, Err: errors.New("key sk-1 is wrong")}, "refused the request"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := forPeople(tt.err); !strings.Contains(got, tt.want) || strings.Contains(got, "secret") || strings.Contains(got, "sk-1") {
				t.Errorf("told as %q, want %q in it", got, tt.want)
			}
		})
	}
}
