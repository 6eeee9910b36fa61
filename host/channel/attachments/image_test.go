package attachments

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/store/media"
)

// TestImagesForModels reads images from the media store, but none that is too large for any model.
func TestImagesForModels(t *testing.T) {
	const most = 1 << 20
	f, _, _ := newFiles(t, nil, config.Media{MaxObject: 64 << 20, MaxTotal: 128 << 20})
	f.cfg.MaxImage = most
	small := []byte("\x89PNG\r\n\x1a\n")
	info, err := f.Media().Put(t.Context(), media.Head{Name: "a.png"}, bytes.NewReader(small))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := f.Image(t.Context(), info.Digest); err != nil || !bytes.Equal(got, small) {
		t.Errorf("image is %q, %v", got, err)
	}
	large, err := f.Media().Put(t.Context(), media.Head{}, bytes.NewReader(append(small, make([]byte, most)...)))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Image(t.Context(), large.Digest); err == nil || errors.Is(err, media.ErrNotFound) {
		t.Errorf("error for a large image is %v", err)
	}
	if _, err := f.Image(t.Context(), strings.Repeat("0", 64)); !errors.Is(err, media.ErrNotFound) {
		t.Errorf("error for one that is not there is %v", err)
	}
}
