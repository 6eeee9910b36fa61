package gateway

import (
	"context"
	"io"
	"net/http"
	"time"

	"github.com/flynnhost/flynn/host/message"
)

// historyLimit is the number of entries that a client of the socket gets.
const historyLimit = 500

// handler is every route of the gateway but those of the API, which docs/reference/openapi.json lists.
//
//	GET  /                          the console, no token
//	GET  /healthz                   the process serves, no token
//	GET  /readyz                    messages are accepted and answered, no token
//	GET  /metrics                   Prometheus, with the token (authorization: credentials_file)
//	GET  /api/v1/socket             WebSocket, token in its first frame
//	POST /api/v1/sign-in            the code of a link, no token
//	GET  /api/v1/sandboxes/{id}/terminal  likewise, a shell in a live sandbox
//	     /api/v1/...                the API
//	     /v1/...                    OpenAI's chat completions, with the token of a client as well
//	     /mcp                       the Model Context Protocol, likewise
func (s *Server) handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /", newAssets())
	mux.HandleFunc("GET /healthz", s.healthz)
	mux.HandleFunc("GET /readyz", s.readyz)
	mux.Handle("GET /metrics", s.forHolder(writeError, s.metrics.Handler.ServeHTTP))
	mux.HandleFunc("GET "+SocketPath, s.socket)
	mux.Handle("POST "+SignInPath, s.api) // by nobody yet
	mux.HandleFunc("GET "+TerminalPath, s.terminal)
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
		mux.Handle(method+" /api/v1/", s.authorized(s.api.ServeHTTP))
	}
	s.routeClients(mux)
	return s.admit(s.metrics.Measure(mux))
}

func (s *Server) healthz(w http.ResponseWriter, _ *http.Request) {
	_, _ = io.WriteString(w, "ok\n")
}

// readyz does not say why the host is not ready, because a probe carries no token. The status does.
func (s *Server) readyz(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), 2*time.Second)
	defer cancel()
	if err := s.backend.Status.Ready(ctx); err != nil {
		s.log.Debug("host is not ready", "error", err)
		http.Error(w, "not ready", http.StatusServiceUnavailable)
		return
	}
	_, _ = io.WriteString(w, "ready\n")
}

// NewMessage is a message of a person on a frontend of this machine.
type NewMessage struct {
	ID   string `json:"id" maxLength:"64" doc:"By the client, unique for ever in its channel, such as a random UUID; sent again, it is answered once"`
	Text string `json:"text,omitempty" doc:"What is said; it may be empty beside files"`
	// Files are handles of uploaded files.
	Files []string `json:"files,omitempty" doc:"Handles of uploaded files"`
}

// CheckWrites refuses a conversation that the caller cannot write to.
func (c Caller) CheckWrites(channel, conversation string) error {
	if !c.Writes(channel, conversation) {
		return readOnly(c.writesWhere())
	}
	return nil
}

// Message checks a message of a caller and returns it as the host takes it.
func (n NewMessage) Message(by Caller, channel, conversation string) (message.Message, error) {
	if err := by.CheckWrites(channel, conversation); err != nil {
		return message.Message{}, err
	}
	err := checkConversation(channel, conversation)
	if err == nil {
		err = checkSend(n.ID, n.Text, n.Files)
	}
	if err != nil {
		return message.Message{}, BadRequest(err.Error())
	}
	return ownMessage(by, channel, conversation, n.ID, n.Text, n.Files), nil
}

// writesWhere says where a caller can write.
func (c Caller) writesWhere() string {
	if c.SignIn == "" {
		return `channel must be "web" or "terminal"`
	}
	return `channel must be "console", and the conversation's id begin with "` + c.Me().Prefix + `"`
}

// Uploader returns the sender of a file that a caller keeps for a message on a channel.
func (c Caller) Uploader(channel string) (message.SenderKey, error) {
	switch {
	case c.SignIn != "" && channel == ChannelConsole:
		return c.Sender, nil
	case c.SignIn == "" && c.Owner() && localFrontend(channel):
		return message.NewSenderKey(channel, c.Sender.ID()), nil
	}
	return "", readOnly(c.writesWhere())
}

// owner is the sender of everything that comes with this machine's token, which proves it.
const owner = "owner"

func ownerKey(channel string) string { return string(message.NewSenderKey(channel, owner)) }

func ownMessage(by Caller, channel, conversation, id, text string, files []string) message.Message {
	now := time.Now().UTC()
	sender := message.Sender{ID: owner, Name: owner, Account: owner}
	if by.SignIn != "" {
		sender = message.Sender{ID: string(by.Sender), Account: by.Sender.ID()}
	}
	return message.Message{
		Channel:      channel,
		EventID:      id,
		Conversation: message.Conversation{ID: conversation, Kind: message.DM},
		Sender:       sender,
		Text:         text,
		Attachments:  attached(files),
		Addressed:    true,
		SentAt:       now,
		ReceivedAt:   now,
	}
}
