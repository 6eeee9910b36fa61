package telegramtest

import (
	"bytes"
	"fmt"
	"image"
	_ "image/jpeg" // sendPhoto looks at its pictures
	_ "image/png"
	"net/http"
	"path"
	"strings"
)

// file is a file on the server.
type file struct {
	Upload
	path string
	size int64 // as getFile reports; larger than the content for files that only pretend to be large
}

// maxDownload is the largest file that getFile gives to bots.
const maxDownload = 20 << 20

// AddFile adds a file for use in a message, and returns its file_id. A size above zero pretends to be that large.
func (s *Server) AddFile(name string, content []byte, size int64) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.addFile(Upload{Name: name, Content: content}, size)
}

func (s *Server) addFile(u Upload, size int64) string {
	n := len(s.files) + 1
	id := fmt.Sprintf("AgACAgIAAxkBAAI%06d-_telegramtest", n)
	s.files[id] = file{Upload: u, path: fmt.Sprintf("documents/file_%d%s", n, path.Ext(u.Name)), size: max(size, int64(len(u.Content)))}
	return id
}

func (s *Server) getFile(c Call) (any, *apiError) {
	id := c.Params["file_id"]
	f, ok := s.files[id]
	switch {
	case !ok:
		return nil, badRequest("invalid file_id")
	case f.size > maxDownload:
		return nil, badRequest("file is too big")
	}
	return map[string]any{"file_id": id, "file_unique_id": "u" + id, "file_size": f.size, "file_path": f.path}, nil
}

// download answers the address that is made of a file_path.
func (s *Server) download(w http.ResponseWriter, name string) {
	fault := s.fault("download")
	s.mu.Lock()
	var content []byte
	found := false
	for _, f := range s.files {
		if f.path == name {
			content, found = f.Content, true
		}
	}
	revoked := s.revoked
	s.mu.Unlock()
	switch {
	case revoked:
		refuse(w, &apiError{Code: 401, Description: "Unauthorized"})
	case fault.Code != 0:
		refuse(w, &apiError{Code: fault.Code, Description: fault.Description})
	case fault.Cut == CutBefore:
		panic(http.ErrAbortHandler)
	case !found:
		refuse(w, &apiError{Code: 404, Description: "Not Found"})
	default:
		w.Header().Set("Content-Type", "application/octet-stream")
		_, _ = w.Write(content)
	}
}

// sendMedia is sendPhoto and sendDocument: a file in the call, or the file_id of an earlier one.
func (s *Server) sendMedia(c Call, field string) (any, *apiError) {
	chat, failure := s.target(c)
	if failure != nil {
		return nil, failure
	}
	caption, failure := visible(c.Params["caption"], c.Params["parse_mode"], maxCaption, "message caption is too long")
	if failure == nil {
		failure = keyboard(c.Params["reply_markup"])
	}
	if failure != nil {
		return nil, failure
	}
	u, ok := c.Files[field]
	id := c.Params[field]
	switch known, there := s.files[id]; {
	case ok:
		id = s.addFile(u, 0)
	case there:
		u = known.Upload
	default:
		return nil, badRequest("there is no %s in the request", field)
	}
	described := map[string]any{"file_id": id, "file_unique_id": "u" + id, "file_size": len(u.Content)}
	m := Message{Text: caption, Markup: c.Params["caption"], Media: field, Upload: u}
	if field == "document" {
		described["file_name"], described["mime_type"] = u.Name, strings.SplitN(u.Type, ";", 2)[0]
		return s.show(chat, c, m, Fields{"caption": caption, "document": described})
	}
	size, failure := picture(u.Content)
	if failure != nil {
		return nil, failure
	}
	described["width"], described["height"] = size.Width, size.Height
	return s.show(chat, c, m, Fields{"caption": caption, "photo": []any{described}})
}

// picture refuses what the real server refuses as a photo.
func picture(content []byte) (image.Config, *apiError) {
	size, _, err := image.DecodeConfig(bytes.NewReader(content))
	if err != nil {
		return size, badRequest("IMAGE_PROCESS_FAILED")
	}
	long, short := max(size.Width, size.Height), min(size.Width, size.Height)
	if size.Width+size.Height > 10_000 || long > 20*short {
		return size, badRequest("PHOTO_INVALID_DIMENSIONS")
	}
	return size, nil
}
