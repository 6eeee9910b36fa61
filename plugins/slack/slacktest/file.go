package slacktest

import (
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strconv"
)

// File is a file of the workspace.
type File struct {
	ID, Name, Type string
	Body           []byte

	announced int // bytes that the upload has to have
	url       string
}

func (f *File) wire() object {
	return object{
		"id": f.ID, "name": f.Name, "title": f.Name, "mimetype": f.Type, "size": len(f.Body), "mode": "hosted",
		"url_private": f.url, "url_private_download": f.url,
	}
}

// newFile gives a file its id and address. s.mu is held.
func (s *Server) newFile(f *File) *File {
	f.ID = "F" + strconv.Itoa(len(s.files)+len(s.uploads)+1)
	f.url = s.http.URL + "/files/" + f.ID
	return f
}

// AddFile makes a file that people can attach to a message.
func (s *Server) AddFile(name, mediaType string, body []byte) *File {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.newFile(&File{Name: name, Type: mediaType, Body: body})
	s.files[f.ID] = f
	return f
}

// AddFileAt adds a file with an address elsewhere.
func (s *Server) AddFileAt(name, mediaType, address string) *File {
	f := s.AddFile(name, mediaType, nil)
	s.mu.Lock()
	defer s.mu.Unlock()
	f.url = address
	return f
}

func (s *Server) fileInfo(form url.Values) object {
	f, ok := s.files[form.Get("file")]
	if !ok {
		return refusal("file_not_found")
	}
	return object{"ok": true, "file": f.wire()}
}

func (s *Server) uploadURL(form url.Values) object {
	size, err := strconv.Atoi(form.Get("length"))
	if err != nil || size < 1 || form.Get("filename") == "" {
		return refusal("invalid_arguments")
	}
	f := s.newFile(&File{Name: form.Get("filename"), announced: size})
	s.uploads[f.ID] = f
	return object{"ok": true, "upload_url": s.http.URL + "/upload/" + f.ID, "file_id": f.ID}
}

// serveUpload takes the bytes: the body itself, or a form with a part "file".
func (s *Server) serveUpload(w http.ResponseWriter, r *http.Request) {
	if s.fault("upload").before(w, r) {
		return
	}
	var body io.Reader = http.MaxBytesReader(w, r.Body, 64<<20)
	if part, _, err := r.FormFile("file"); err == nil {
		defer part.Close()
		body = part
	}
	bytes, err := io.ReadAll(body)
	defer s.mu.Change()()
	f, ok := s.uploads[r.PathValue("id")]
	if !ok || err != nil || len(bytes) != f.announced {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	f.Body, f.Type = bytes, http.DetectContentType(bytes)
	_, _ = w.Write([]byte("OK - " + strconv.Itoa(len(bytes))))
}

// completeUpload shares an uploaded file.
func (s *Server) completeUpload(form url.Values) object {
	var list []struct{ ID, Title string }
	if json.Unmarshal([]byte(form.Get("files")), &list) != nil || len(list) == 0 {
		return refusal("invalid_arguments")
	}
	channel := form.Get("channel_id")
	if why := s.writable(channel); why != "" {
		return refusal(why)
	}
	m := Message{User: BotUser, BotID: BotID, ThreadTS: form.Get("thread_ts"), Text: form.Get("initial_comment")}
	for _, l := range list {
		f, ok := s.uploads[l.ID]
		if !ok || f.Body == nil {
			return refusal("file_not_found")
		}
		m.Files = append(m.Files, f)
	}
	var done []object
	for _, f := range m.Files {
		delete(s.uploads, f.ID)
		s.files[f.ID] = f
		done = append(done, object{"id": f.ID, "title": f.Name})
	}
	m.TS = s.stamp()
	s.messages[channel] = append(s.messages[channel], m)
	return object{"ok": true, "files": done}
}

// serveFile answers with the bytes, to the bot only; everybody else sees the page for signing in.
func (s *Server) serveFile(w http.ResponseWriter, r *http.Request) {
	if s.fault("download").before(w, r) {
		return
	}
	s.mu.Lock()
	f, ok := s.files[r.PathValue("id")]
	s.mu.Unlock()
	switch {
	case r.Header.Get("Authorization") != "Bearer "+BotToken:
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = w.Write([]byte("<!DOCTYPE html><html>Sign in to Slack</html>"))
	case !ok:
		w.WriteHeader(http.StatusNotFound)
	default:
		w.Header().Set("Content-Type", f.Type)
		_, _ = w.Write(f.Body)
	}
}
