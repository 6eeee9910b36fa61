package attachments

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"sync"
	"time"

	channelkind "github.com/flynnhost/flynn/host/plugin/kind/channel"
	"github.com/flynnhost/flynn/host/store"
	"github.com/flynnhost/flynn/host/store/media"
)

// Others are the other hosts that share the store.
type Others interface {
	store.Blobs
	store.WantedFiles
}

// OthersOf returns the Others of a store; nil if it is not shared.
func OthersOf(s store.Store) Others {
	if s.Shared() {
		return s
	}
	return nil
}

const (
	// askPatience is how long a host waits until another one has taken up what it asks for.
	askPatience = 5 * time.Second
	askEvery    = 100 * time.Millisecond
	// givesAtOnce is for how many files this host answers at a time.
	givesAtOnce = 4
)

const errNotConnected = refusal("the channel is not connected now")

// ask has another host give a file: the one that has its channel connected or, without a channel, that has the digest.
func (f *Files) ask(ctx context.Context, w store.WantedFile) (channelkind.Media, error) {
	if f.cfg.Others == nil {
		return channelkind.Media{}, errNotConnected
	}
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	w.ID = store.NewID(time.Now())
	if err := f.cfg.Others.WantFile(ctx, w); err != nil {
		return channelkind.Media{}, err
	}
	defer func() {
		if err := f.cfg.Others.ForgetFile(context.WithoutCancel(ctx), w.ID); err != nil {
			f.cfg.Log.Warn("cannot end a request for a file", "error", err)
		}
	}()
	for began := time.Now(); ; {
		got, err := f.cfg.Others.FoundFile(ctx, w.ID)
		switch {
		case err != nil:
			return channelkind.Media{}, err
		case got.Problem != "":
			return channelkind.Media{}, refusal(got.Problem)
		case got.State == store.FileAnswered:
			body, err := f.cfg.Others.Blob(ctx, got.Digest)
			if err != nil {
				return channelkind.Media{}, err
			}
			// The body is read after the return, when ctx has ended.
			data, err := io.ReadAll(io.LimitReader(body, w.Most+1))
			if err == nil && int64(len(data)) > w.Most {
				err = media.ErrTooLarge
			}
			return channelkind.Media{Name: got.Name, Type: got.Type, Size: got.Size, Body: io.NopCloser(bytes.NewReader(data))}, err
		case got.State == store.FileWanted && time.Since(began) > askPatience:
			return channelkind.Media{}, errNotConnected
		}
		select {
		case <-time.After(askEvery):
		case <-ctx.Done():
			return channelkind.Media{}, context.Cause(ctx)
		}
	}
}

// open opens a file, which another host may have.
func (f *Files) open(ctx context.Context, digest string) (io.ReadCloser, media.Info, error) {
	body, info, err := f.media.Open(ctx, digest)
	if f.cfg.Others == nil || !errors.Is(err, media.ErrNotFound) {
		return body, info, err
	}
	blob, other := f.cfg.Others.Blob(ctx, digest)
	head := media.Head{}
	if errors.Is(other, store.ErrNotFound) {
		var got channelkind.Media
		got, other = f.ask(ctx, store.WantedFile{Handle: digest, Most: int64(f.cfg.Media.MaxObject)})
		blob, head = got.Body, media.Head{Name: got.Name, Type: got.Type}
	}
	if other != nil {
		f.cfg.Log.Debug("no other host has a file", "digest", digest, "error", other)
		return nil, media.Info{}, err
	}
	if _, err := f.media.Put(ctx, head, blob); err != nil {
		return nil, media.Info{}, err
	}
	return f.media.Open(ctx, digest)
}

// give writes a file where other hosts find it.
func (f *Files) give(ctx context.Context, digest string) {
	if f.cfg.Others == nil {
		return
	}
	if err := f.upload(ctx, digest); err != nil {
		f.cfg.Log.Warn("cannot give a file to other hosts", "digest", digest, "error", err)
	}
}

// upload writes a file of this host into the store.
func (f *Files) upload(ctx context.Context, digest string) error {
	body, _, err := f.media.Open(ctx, digest)
	if err != nil {
		return err
	}
	return errors.Join(f.cfg.Others.PutBlob(ctx, digest, body), body.Close())
}

// Drop removes a file that is no longer needed, and reports whether it is gone.
func (f *Files) Drop(ctx context.Context, digest string) (gone bool, err error) {
	if f.cfg.Others != nil {
		if err := f.cfg.Others.DropBlob(ctx, digest); err != nil {
			return false, err
		}
	}
	return f.media.Drop(ctx, digest)
}

// Refresh has the files looked for that other hosts want.
func (f *Files) Refresh(context.Context) error {
	select {
	case f.wake <- struct{}{}:
	default:
	}
	return nil
}

// Run gives other hosts the files that they want, until ctx ends.
func (f *Files) Run(ctx context.Context) error {
	var gives sync.WaitGroup
	defer gives.Wait()
	room := make(chan struct{}, givesAtOnce)
	for {
		select {
		case <-f.wake:
		case <-ctx.Done():
			return nil
		}
		if f.cfg.Others == nil {
			continue
		}
		wanted, err := f.cfg.Others.WantedFiles(ctx)
		if err != nil && ctx.Err() == nil {
			f.cfg.Log.Warn("cannot look for files that other hosts want", "error", err)
		}
		for _, w := range wanted {
			if !f.has(ctx, w) {
				continue
			}
			select {
			case room <- struct{}{}:
			case <-ctx.Done():
				return nil
			}
			gives.Go(func() {
				defer func() { <-room }()
				if err := f.answer(ctx, w); err != nil && ctx.Err() == nil && !errors.Is(err, store.ErrConflict) {
					f.cfg.Log.Warn("cannot give another host a file", "channel", w.Channel, "error", err)
				}
			})
		}
	}
}

// has reports whether this host can give a file.
func (f *Files) has(ctx context.Context, w store.WantedFile) bool {
	if f.keeps(w) {
		_, err := f.media.Touch(ctx, w.Handle)
		return err == nil
	}
	_, connected := f.source(w.Channel)
	return connected
}

// keeps reports whether the handle of a file is a digest.
func (f *Files) keeps(w store.WantedFile) bool {
	return w.Channel == "" || slices.Contains(f.cfg.Kept, w.Channel)
}

// answer gives another host a file, or says why not.
func (f *Files) answer(ctx context.Context, w store.WantedFile) error {
	if err := f.cfg.Others.TakeFile(ctx, w.ID); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	info, err := f.find(ctx, w)
	if err == nil {
		err = f.upload(ctx, info.Digest)
	}
	found := store.FoundFile{Digest: info.Digest, Name: info.Name, Type: info.Type(), Size: info.Size}
	if err != nil {
		found = store.FoundFile{Problem: reason(err)}
	}
	return errors.Join(err, f.cfg.Others.AnswerFile(context.WithoutCancel(ctx), w.ID, found))
}

// find brings a file into the media store.
func (f *Files) find(ctx context.Context, w store.WantedFile) (media.Info, error) {
	if f.keeps(w) {
		return f.media.Touch(ctx, w.Handle)
	}
	from, connected := f.source(w.Channel)
	if !connected {
		return media.Info{}, errNotConnected
	}
	most := min(w.Most, int64(f.cfg.Media.MaxObject), maxFetch)
	got, err := from.Fetch(ctx, w.Handle, most)
	if err != nil {
		return media.Info{}, err
	}
	defer got.Body.Close()
	return f.media.Put(ctx, media.Head{Size: got.Size, Type: got.Type, Name: got.Name, Owner: w.Sender}, got.Body)
}
