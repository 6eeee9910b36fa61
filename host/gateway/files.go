package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/flynnhost/flynn/host/message"
)

// FilesPath is the path to which files are posted, one at a time, before the messages that they belong to.
const FilesPath = "/api/v1/files"

// MaxFile bounds a file, in bytes: the largest write into a workspace. [media] max_object may be lower.
const MaxFile = 64 << 20

// fileTimeout bounds an upload. It is shorter than writeTimeout.
const fileTimeout = 25 * time.Second

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

func (s *Server) keepFile(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	switch {
	case r.Header.Get("Content-Type") != "application/octet-stream": // which no HTML form sends
		writeError(w, http.StatusUnsupportedMediaType, CodeBadRequest, "send Content-Type: application/octet-stream")
		return
	case !localFrontend(q.Get("channel")):
		writeError(w, http.StatusForbidden, CodeReadOnly, `channel must be "web" or "terminal"`)
		return
	case !validName(q.Get("name")) || strings.ContainsAny(q.Get("name"), `/\`):
		writeError(w, http.StatusBadRequest, CodeBadRequest, fmt.Sprintf("name must be a file's name of at most %d bytes, without its folder", maxName))
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), fileTimeout)
	defer cancel()
	file, err := s.backend.Files.KeepFile(ctx, message.SenderKey(ownerKey(q.Get("channel"))), q.Get("name"), r.Body)
	var large *http.MaxBytesError
	if errors.Is(err, ErrNotKept) || errors.As(err, &large) {
		writeError(w, http.StatusRequestEntityTooLarge, CodeBadRequest, err.Error())
		return
	}
	s.answer(w, file, err)
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
