package openai

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/flynnhost/flynn/host/gateway/api"
)

const (
	// maxImages bounds the images of a request, maxImage the bytes of one: models accept no more.
	maxImages = 20
	maxImage  = 3_750_000
)

// decodeImage reads an image out of a data: URL (RFC 2397). Addresses are never fetched.
func decodeImage(url string) (api.File, error) {
	rest, ok := strings.CutPrefix(url, "data:")
	if !ok {
		return api.File{}, errors.New("an image must be a data: URL; send data:image/png;base64,DATA")
	}
	kind, encoded, ok := strings.Cut(rest, ";base64,")
	if kind == "image/jpg" { // a common mistake
		kind = "image/jpeg"
	}
	switch {
	case !ok || !slices.Contains([]string{"image/png", "image/jpeg", "image/gif", "image/webp"}, kind):
		return api.File{}, fmt.Errorf("an image is data:TYPE;base64,DATA of the type image/png, image/jpeg, image/gif or image/webp, not %.40q", kind)
	case len(encoded) > base64.StdEncoding.EncodedLen(maxImage):
		return api.File{}, fmt.Errorf("an image has more than %d bytes", maxImage)
	}
	data, err := base64.StdEncoding.Strict().DecodeString(encoded)
	if err != nil {
		return api.File{}, errors.New("an image is not valid base64")
	}
	if is := http.DetectContentType(data); is != kind {
		return api.File{}, fmt.Errorf("an image declared as %s is %s", kind, is)
	}
	return api.File{Type: kind, Data: data}, nil
}
