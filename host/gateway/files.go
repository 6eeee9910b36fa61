package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/flynnhost/flynn/host/message"
)

// FilesPath is the path to which files are posted, one at a time, before the messages that they belong to.
const FilesPath = "/api/v1/files"

// MaxFile bounds a file, in bytes: the largest write into a workspace. [media] max_object may be lower.
const MaxFile = 64 << 20

// ErrNotKept is the error of a file that is too large, or that the host has no room for.
var ErrNotKept = errors.New("the file was not kept")

// File is an uploaded file. A message names it by its handle.
type File struct {
	Handle string `json:"handle"`
	Name   string `json:"name"`
	Type   string `json:"type"` // media type, told from the bytes
	Size   int64  `json:"size"`
}

// Files keeps the files of messages.
type Files interface {
	// KeepFile keeps a file of a sender: ErrNotKept if it is too large, or if there is no room.
	KeepFile(ctx context.Context, sender message.SenderKey, name string, body io.Reader) (File, error)
}

// checkFiles refuses what is not a handle of keepFile.
func checkFiles(handles []string) error {
	if len(handles) > message.MaxAttachments {
		return fmt.Errorf("a message may have %d files", message.MaxAttachments)
	}
	for _, h := range handles {
		if len(h) != 64 || strings.Trim(h, "0123456789abcdef") != "" {
			return fmt.Errorf("file %q is not a handle that POST %s has answered", clip(h), FilesPath)
		}
	}
	return nil
}

func attached(handles []string) []message.Attachment {
	var list []message.Attachment
	for _, h := range handles {
		list = append(list, message.Attachment{Handle: h})
	}
	return list
}
