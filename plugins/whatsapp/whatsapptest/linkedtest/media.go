package linkedtest

import (
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"

	"go.mau.fi/whatsmeow"
	"go.mau.fi/whatsmeow/proto/waE2E"
	"go.mau.fi/whatsmeow/util/cbcutil"
	"go.mau.fi/whatsmeow/util/hkdfutil"
)

const (
	mediaAuth = "auth-of-the-test"
	maxMedium = 8 << 20 // bytes
	macLength = 10
)

// mediaStore is the host of encrypted media: it knows nothing but their hashes.
type mediaStore struct {
	mu   sync.Mutex
	body map[string][]byte // by hash, as in addresses
	gone int               // status of every answer; 0: none
}

// direct returns the path of a medium. WhatsApp's carry signatures in their query.
func direct(token string) string { return "/v/t62.7118-24/" + token[:12] + "?ccb=11-4&oh=" + token }

// put takes a medium that a device has encrypted.
func (m *mediaStore) put(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxMedium))
	token := tokenOf(body)
	switch {
	case err != nil:
		http.Error(w, "too large", http.StatusRequestEntityTooLarge)
	case r.URL.Query().Get("auth") != mediaAuth:
		http.Error(w, "who are you?", http.StatusUnauthorized)
	case r.PathValue("token") != token || r.URL.Query().Get("token") != token:
		http.Error(w, "another hash", http.StatusBadRequest)
	default:
		m.keep(token, body)
		_ = json.NewEncoder(w).Encode(map[string]string{"url": "https://" + mediaHost + direct(token), "direct_path": direct(token)})
	}
}

func (m *mediaStore) keep(token string, body []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.body == nil {
		m.body = map[string][]byte{}
	}
	m.body[token] = body
}

func (m *mediaStore) find(token string) ([]byte, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	body, ok := m.body[token]
	return body, ok
}

// get gives a medium to a client that knows its path and its hash.
func (m *mediaStore) get(w http.ResponseWriter, r *http.Request) {
	m.mu.Lock()
	status := m.gone
	m.mu.Unlock()
	token := r.URL.Query().Get("oh")
	body, ok := m.find(token)
	switch {
	case status != 0:
		http.Error(w, "no", status)
	case !ok || r.URL.Query().Get("hash") != "" && r.URL.Query().Get("hash") != token:
		http.Error(w, "no such medium", http.StatusNotFound)
	default:
		_, _ = w.Write(body)
	}
}

func tokenOf(body []byte) string {
	sum := sha256.Sum256(body)
	return base64.URLEncoding.EncodeToString(sum[:])
}

// MediaFails makes the host answer every download with a status, such as 410; 0 ends that.
func (s *Server) MediaFails(status int) {
	s.media.mu.Lock()
	defer s.media.mu.Unlock()
	s.media.gone = status
}

// Attach encrypts a document, uploads it, and returns the message for it.
func (p *Person) Attach(name, mime, caption string, body []byte) *waE2E.Message {
	key := make([]byte, 32)
	_, _ = rand.Read(key)
	iv, cipherKey, macKey := mediaKeys(key, whatsmeow.MediaDocument)
	sealed, err := cbcutil.Encrypt(cipherKey, iv, body)
	if err != nil {
		p.server.t.Fatal(err)
	}
	sealed = append(sealed, macOf(macKey, iv, sealed)...)
	token, plain, hash := tokenOf(sealed), sha256.Sum256(body), sha256.Sum256(sealed)
	p.server.media.keep(token, sealed)
	length, path := uint64(len(body)), direct(token)
	return &waE2E.Message{DocumentMessage: &waE2E.DocumentMessage{
		FileName: &name, Mimetype: &mime, Caption: &caption, DirectPath: &path, MediaKey: key, FileSHA256: plain[:], FileEncSHA256: hash[:], FileLength: &length,
	}}
}

// Open gets the medium of a message and decrypts it.
func (p *Person) Open(m whatsmeow.DownloadableMessage) ([]byte, error) {
	sealed, ok := p.server.media.find(base64.URLEncoding.EncodeToString(m.GetFileEncSHA256()))
	if !ok || len(sealed) < macLength || m.GetDirectPath() != direct(tokenOf(sealed)) {
		return nil, fmt.Errorf("there is nothing at %q", m.GetDirectPath())
	}
	sealed, mac := sealed[:len(sealed)-macLength], sealed[len(sealed)-macLength:]
	iv, cipherKey, macKey := mediaKeys(m.GetMediaKey(), whatsmeow.GetMediaType(m))
	if !hmac.Equal(mac, macOf(macKey, iv, sealed)) {
		return nil, errors.New("the medium was changed")
	}
	body, err := cbcutil.Decrypt(cipherKey, iv, bytes.Clone(sealed))
	if err != nil {
		return nil, err
	}
	if sum := sha256.Sum256(body); !bytes.Equal(sum[:], m.GetFileSHA256()) {
		return nil, errors.New("the medium is another one than the message says")
	}
	return body, nil
}

// mediaKeys are made of the key that the message carries.
func mediaKeys(key []byte, kind whatsmeow.MediaType) (iv, cipher, mac []byte) {
	all := hkdfutil.SHA256(key, nil, []byte(kind), 112)
	return all[:16], all[16:48], all[48:80]
}

func macOf(key, iv, sealed []byte) []byte {
	h := hmac.New(sha256.New, key)
	h.Write(iv)
	h.Write(sealed)
	return h.Sum(nil)[:macLength]
}
