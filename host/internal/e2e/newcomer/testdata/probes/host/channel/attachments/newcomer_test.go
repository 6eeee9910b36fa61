package attachments

import (
	"testing"

	"github.com/flynnhost/flynn/host/store/media"
)

// The new type is taken where the configuration names none, and others are still refused.
func TestNewcomer(t *testing.T) {
	f := &Files{cfg: Config{}}
	if err := f.accepts(media.Info{Detected: "font/woff2"}); err != nil {
		t.Error(err)
	}
	if f.accepts(media.Info{Detected: "application/x-elf"}) == nil {
		t.Error("a program is taken")
	}
}
