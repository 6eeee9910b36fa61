package docker

import (
	"context"
	"errors"
	"io"

	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/client"
)

// Pull implements image.Puller. Its caller names image and engine, so the engine's own message is enough.
func (d *Driver) Pull(ctx context.Context, ref string, progress func(line string)) error {
	ctx, cancel := context.WithTimeout(ctx, pullTimeout)
	defer cancel()
	ctx, leave := d.attended(ctx)
	defer leave()
	body, err := d.api.ImagePull(ctx, ref, image.PullOptions{})
	if err == nil {
		err = errors.Join(follow(body, progress), body.Close())
	}
	err = silence(ctx, err)
	if client.IsErrConnectionFailed(err) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, errSilent) {
		return d.explain("pull "+ref, err)
	}
	return err
}

// pullEvent is one object of the engine's answer, which may report a failure after status 200.
type pullEvent struct {
	Status         string `json:"status"`
	ID             string `json:"id"` // of a layer
	ProgressDetail struct {
		Current int64 `json:"current"` // bytes
		Total   int64 `json:"total"`
	} `json:"progressDetail"`
	Error string `json:"error"`
}

func follow(body io.Reader, progress func(line string)) error {
	var l layers
	return each(body, func(e pullEvent) error {
		if e.Error != "" {
			return errors.New(e.Error)
		}
		if line := l.see(e); line != "" && progress != nil {
			progress(line)
		}
		return nil
	})
}
