package backend

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/tool/builtin"
)

// Files keeps the files of the page and the terminal.
type Files struct{ Keeper FileKeeper }

var _ gateway.Files = Files{}

// KeepFile implements gateway.Files. The handle of the file is its digest.
func (f Files) KeepFile(ctx context.Context, sender message.SenderKey, name string, body io.Reader) (gateway.File, error) {
	a, err := f.Keeper.Keep(ctx, sender, name, body)
	if errors.Is(err, builtin.ErrNotKept) {
		err = fmt.Errorf("%w: %w", gateway.ErrNotKept, err)
	}
	return gateway.File{Handle: a.Digest, Name: a.Name, Type: a.Type, Size: a.Size}, err
}
