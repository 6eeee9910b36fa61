package host

import (
	"log/slog"
	"path/filepath"
	"time"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/media"
)

// openMedia opens the store of attachments.
func openMedia(c *config.Config, log *slog.Logger) (*media.Store, error) {
	return media.New(media.Config{
		Dir:       filepath.Join(c.Store.Dir, "media"),
		MaxObject: int64(c.Media.MaxObject), MaxTotal: int64(c.Media.MaxTotal), MaxAge: time.Duration(c.Media.MaxAge),
		Log: log,
	})
}
