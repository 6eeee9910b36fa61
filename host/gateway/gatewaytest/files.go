package gatewaytest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"

	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/message"
)

var _ gateway.Files = (*Backend)(nil)

// maxFile bounds a kept file, in bytes.
const maxFile = 1 << 20

// KeepFile implements gateway.Files.
func (b *Backend) KeepFile(_ context.Context, _ message.SenderKey, name string, body io.Reader) (gateway.File, error) {
	data, err := io.ReadAll(io.LimitReader(body, maxFile+1))
	if err != nil {
		return gateway.File{}, err
	}
	if len(data) > maxFile {
		return gateway.File{}, gateway.ErrNotKept
	}
	sum := sha256.Sum256(data)
	handle := hex.EncodeToString(sum[:])
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.files == nil {
		b.files = map[string][]byte{}
	}
	b.files[handle] = data
	return gateway.File{Handle: handle, Name: name, Type: "application/octet-stream", Size: int64(len(data))}, nil
}

// Kept returns the bytes of a file that was kept.
func (b *Backend) Kept(handle string) ([]byte, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	data, ok := b.files[handle]
	return data, ok
}
