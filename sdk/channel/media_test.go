package channel_test

import (
	"io"
	"strings"
	"testing"

	"github.com/flynnhost/flynn/sdk/channel"
)

func TestBounded(t *testing.T) {
	for limit, fails := range map[int64]bool{5: false, 4: true} {
		ended := 0
		b := channel.Bounded(io.NopCloser(strings.NewReader("12345")), limit, func() { ended++ })
		if _, err := io.ReadAll(b); (err != nil) != fails {
			t.Errorf("limit %d: %v", limit, err)
		}
		if err := b.Close(); err != nil || ended != 1 {
			t.Errorf("close: %v, ended %d times", err, ended)
		}
	}
}
