package conform

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/flynnhost/flynn/host/plugin/service"
	"github.com/flynnhost/flynn/host/store/media"
	"github.com/flynnhost/flynn/host/store/sqlite"
	"github.com/flynnhost/flynn/sdk/plugintest/fake"
)

// offer has what the host keeps for a plugin from one process of a check to the next: its values and its media.
type offer struct {
	values namespace
	media  *media.Store
	hooks  net.Listener // for webhooks
	http   *http.Server
	work   sync.WaitGroup

	mu   sync.Mutex
	last *service.Server // of the latest process, which gets the webhooks
}

// services returns the host services for the next process; nil if its manifest asks for none.
func (b *bench) services() (*service.Server, error) {
	if b.kit.values == nil {
		return nil, nil
	}
	if b.offer == nil {
		o, err := newOffer(namespace{b.kit.values, b.check}, filepath.Join(b.stateDir, "media"))
		if err != nil {
			return nil, err
		}
		b.offer = o
	}
	o, platform := b.offer, b.platform
	s, err := service.New(service.Config{
		Values: o.values, Media: o.media, PublicURL: "http://" + o.hooks.Addr().String(), Log: b.kit.log,
		OnServe: func(_, url string) {
			if platform != nil {
				_ = platform.tell(fake.Command{Webhook: &fake.Webhook{URL: url}}) // if the platform is gone, the check fails
			}
		},
	})
	o.mu.Lock()
	defer o.mu.Unlock()
	o.last = s
	return s, err
}

// openStore opens the store of a run, in a folder that forget removes, if the plugin uses host services.
func (k *kit) openStore(ctx context.Context) (forget func(), err error) {
	if len(k.manifest.Permissions.Host) == 0 {
		return func() {}, nil
	}
	dir, err := os.MkdirTemp("", "conform")
	if err != nil {
		return nil, err
	}
	s, err := sqlite.Open(ctx, dir)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	k.values = s
	return func() {
		_ = s.Close()
		_ = os.RemoveAll(dir)
	}, nil
}

func newOffer(values namespace, mediaDir string) (*offer, error) {
	o := &offer{values: values}
	var err error
	if o.media, err = media.New(media.Config{Dir: mediaDir}); err != nil {
		return nil, err
	}
	if o.hooks, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		return nil, err
	}
	o.http = &http.Server{Handler: http.HandlerFunc(o.hook), ReadHeaderTimeout: 10 * time.Second}
	o.work.Go(func() { _ = o.http.Serve(o.hooks) })
	return o, nil
}

func (o *offer) hook(w http.ResponseWriter, r *http.Request) {
	o.mu.Lock()
	s := o.last
	o.mu.Unlock()
	s.Hooks().ServeHTTP(w, r)
}

func (o *offer) close() {
	_ = o.http.Close()
	o.work.Wait()
}
