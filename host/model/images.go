package model

import (
	"bytes"
	"context"
	"slices"
)

// Bounds of the images of one request, which all providers accept.
const (
	maxImages     = 20
	maxImagesSize = 15_000_000
)

// withImages loads the images of a request's messages, the latest first, as long as there is room. The others are left out: the text
// around them mentions them.
func withImages(ctx context.Context, req Request, can bool) Request {
	if !slices.ContainsFunc(req.Messages, Message.HasImages) {
		return req
	}
	l := loader{open: req.OpenImage, left: maxImages, room: maxImagesSize}
	if !can {
		l.open = nil
	}
	out := slices.Clone(req.Messages)
	for i, m := range slices.Backward(out) {
		out[i].Images = l.load(ctx, m.Images)
		if len(m.Results) == 0 {
			continue
		}
		out[i].Results = slices.Clone(m.Results)
		for j, r := range slices.Backward(m.Results) {
			out[i].Results[j].Images = l.load(ctx, r.Images)
		}
	}
	req.Messages, req.Rough = out, 0
	return req
}

// loader reads images within the bounds of a request.
type loader struct {
	open func(ctx context.Context, digest string) ([]byte, error)
	left int
	room int
}

func (l *loader) load(ctx context.Context, images []Image) []Image {
	var out []Image
	for _, img := range slices.Backward(images) {
		if l.open == nil || l.left == 0 {
			break
		}
		data, err := l.open(ctx, img.Digest)
		kind := ImageType(data)
		if err != nil || kind == "" || len(data) > min(MaxImage, l.room) {
			continue
		}
		l.left--
		l.room -= len(data)
		out = append(out, Image{Digest: img.Digest, Type: kind, Data: data})
	}
	slices.Reverse(out)
	return out
}

// MaxImage is the size of the largest image that models accept, in bytes: 5 MB when encoded.
const MaxImage = 3_750_000

// ImageType returns the media type of an image, one of the four that every provider accepts, or "". It goes by the bytes alone.
func ImageType(data []byte) string {
	switch {
	case bytes.HasPrefix(data, []byte("\x89PNG\r\n\x1a\n")):
		return "image/png"
	case bytes.HasPrefix(data, []byte("\xff\xd8\xff")):
		return "image/jpeg"
	case bytes.HasPrefix(data, []byte("GIF87a")), bytes.HasPrefix(data, []byte("GIF89a")):
		return "image/gif"
	case len(data) >= 12 && bytes.HasPrefix(data, []byte("RIFF")) && string(data[8:12]) == "WEBP":
		return "image/webp"
	}
	return ""
}

// IsImageType reports whether models accept images of a media type.
func IsImageType(kind string) bool {
	return slices.Contains([]string{"image/png", "image/jpeg", "image/gif", "image/webp"}, kind)
}
