package gateway

import (
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/store"
	"github.com/flynnhost/flynn/host/tool/consent"
)

// The WebSocket protocol, version 1.
//
// A client opens GET /api/v1/socket with the subprotocol "flynn.v1" and speaks text frames, each one JSON object
// with a "type". One socket watches one conversation. Frames of a client are bounded by MaxFrame and decoded
// strictly: an unknown type, an unknown, repeated or missing field, or anything after the object is answered
// with an error and ends the socket. Clients in turn ignore types and fields that they do not know.
//
// From the client:
//
//	{"type":"hello","token":T,"channel":"web","conversation":C,"resume":K}
//	    The first frame, within ten seconds. The token is that of the token file; it is never part of the URL, where
//	    logs and histories would keep it. Conversation is a name of the client's choosing. With the optional
//	    resume, the key of the last entry that the client has, history holds only what came after it.
//	    With this machine's token any known channel can be watched, and web and terminal be written to. With the token of a sign-in, owners
//	    can watch any channel, others only their own conversations, and all write to their own: see GET /api/v1/me.
//	{"type":"send","id":I,"text":"...","files":[HANDLE...]}
//	    Says something. The optional files are handles that POST /api/v1/files has answered; with them, text may be empty.
//	    I is made by the client, unique for ever in its channel (a random UUID). After a lost connection the client sends everything that
//	    was not accepted again, with the same I: it is answered once.
//	{"type":"stop"}                                  Ends the running turn.
//	{"type":"decide","approval":A,"grant":true}      Answers an approval request, for owners. With "scope":"session" or "scope":"standing" calls
//	    of the same kind are allowed from then on; see Offer.
//	{"type":"history"}                               Asks for the whole history again.
//
// From the server:
//
//	{"type":"welcome","channel":"web","conversation":C,"write":true,"version":"...","intro":Intro}
//	    Intro is for a conversation in which nothing was said yet, and only where it can be written to.
//	{"type":"history","entries":[Entry...],"resumed":false,"live":[message.Event...]}
//	    The optional "earlier" is the cursor of GET .../entries for those before them.
//	    After welcome, after resync and when asked for. Unless resumed, it replaces what the client shows. Live are the events of the
//	    turns that run, up to now: what has streamed and is not stored yet. They come behind the entries, like events.
//	{"type":"event","event":message.Event}           As it happens. An event can be in the history too: replies are
//	    told apart by key, tool calls by call, and text deltas are superseded by the reply of their turn.
//	{"type":"accepted","id":I}                       The message is durable.
//	{"type":"approvals","approvals":[Approval...]}   All requests that wait for a person, whenever they change.
//	{"type":"resync"}                                The client missed events, because it was too slow or a turn runs at another host; history follows.
//	{"type":"ping"}                                  Every PingInterval, so that a client notices silence.
//	{"type":"error","code":"...","message":"...","id":I}
//	    With an id, that send was not accepted and will not be. Without one, unauthorized, limited and bad_request end
//	    the socket.
const (
	Subprotocol = "flynn.v1"
	SocketPath  = "/api/v1/socket"
	// MaxFrame bounds a frame of a client, in bytes.
	MaxFrame = maxBody
	// PingInterval is the longest silence of a server.
	PingInterval = 20 * time.Second
)

// Types of frames.
const (
	TypeHello     = "hello"
	TypeSend      = "send"
	TypeStop      = "stop"
	TypeDecide    = "decide"
	TypeHistory   = "history"
	TypeWelcome   = "welcome"
	TypeEvent     = "event"
	TypeAccepted  = "accepted"
	TypeApprovals = "approvals"
	TypeResync    = "resync"
	TypePing      = "ping"
	TypeError     = "error"
)

// Codes of errors, on the socket and in the JSON API.
const (
	CodeBadRequest   = "bad_request"
	CodeUnauthorized = "unauthorized"
	CodeForbidden    = "forbidden"
	CodeLimited      = "limited"
	CodeReadOnly     = "read_only"   // the conversation belongs to a channel that is not a local frontend
	CodeNotFound     = "not_found"   // no such approval
	CodeConflict     = "conflict"    // the approval is answered already, or has expired
	CodeNotAllowed   = "not_allowed" // the request cannot be granted like that
	CodeTooLarge     = "too_large"   // the request has more bytes than are read
	CodeUnavailable  = "unavailable" // the host cannot do it now; try again later
)

// The channels that can be written to through the gateway: the local frontends with this machine's token, and the console by people who
// are signed in.
const (
	ChannelWeb      = "web"
	ChannelTerminal = "terminal"
	ChannelConsole  = message.ConsoleChannel
)

// ClientFrame is a frame of a client. Which fields it may have follows from Type; see DecodeFrame.
type ClientFrame struct {
	Type         string `json:"type"`
	Token        string `json:"token,omitempty"`
	Channel      string `json:"channel,omitempty"`
	Conversation string `json:"conversation,omitempty"`
	Resume       string `json:"resume,omitempty"`
	ID           string `json:"id,omitempty"`
	Text         string `json:"text,omitempty"`
	// Files are handles of uploaded files.
	Files    []string `json:"files,omitempty"`
	Approval string   `json:"approval,omitempty"`
	Grant    *bool    `json:"grant,omitempty"`
	Scope    string   `json:"scope,omitempty"`
}

// ServerFrame is a frame of the server.
type ServerFrame struct {
	Type         string          `json:"type"`
	Channel      string          `json:"channel,omitempty"`
	Conversation string          `json:"conversation,omitempty"`
	Write        bool            `json:"write,omitempty"`
	Version      string          `json:"version,omitempty"`
	Intro        *Intro          `json:"intro,omitempty"`
	ID           string          `json:"id,omitempty"`
	Entries      []Entry         `json:"entries,omitzero"`
	Earlier      string          `json:"earlier,omitempty"`
	Resumed      bool            `json:"resumed,omitempty"`
	Live         []message.Event `json:"live,omitempty"`
	Event        *message.Event  `json:"event,omitempty"`
	Approvals    []Approval      `json:"approvals,omitzero"`
	Code         string          `json:"code,omitempty"`
	Message      string          `json:"message,omitempty"`
}

// Approval is a pending request as people see it: the whole call, and where it would run.
type Approval struct {
	ID        string             `json:"id"`
	Session   message.SessionKey `json:"session"` // "channel:conversation:agent"
	Turn      string             `json:"turn,omitempty"`
	Agent     string             `json:"agent"`
	Requester message.SenderKey  `json:"requester,omitempty"`
	Tool      string             `json:"tool"`
	Args      json.RawMessage    `json:"args"`
	Dir       string             `json:"dir,omitempty"`
	Where     string             `json:"where"`
	Reasons   []string           `json:"reasons,omitempty"`
	Created   time.Time          `json:"created,omitzero"`
	Expires   time.Time          `json:"expires,omitzero"`
	Offer
}

// ApprovalViews returns requests as a caller sees them: all for owners, who may answer them, and his own for another person.
func (c Caller) ApprovalViews(service Approvals, list []consent.Approval) []Approval {
	views := make([]Approval, 0, len(list))
	for _, a := range list {
		if !c.Owner() && a.Requester != c.Sender {
			continue
		}
		offer := Offer{}
		if c.Owner() {
			offer = service.Offer(a)
		}
		views = append(views, Approval{
			ID: a.ID, Session: a.Session, Turn: a.Turn, Agent: a.Agent, Requester: a.Requester,
			Tool: a.Tool, Args: a.Args, Dir: a.Dir, Where: a.Where, Reasons: a.Reasons,
			Created: a.Created, Expires: a.Expires, Offer: offer,
		})
	}
	return views
}

// errorCode names the class of a backend's error.
func errorCode(err error) string {
	var bad BadRequest
	var read readOnly
	var large *http.MaxBytesError
	var locked interface{ LockedOut() bool }
	var refused interface{ Limited() bool }
	var wrong *NotApplied
	var faults *Refusal
	switch {
	case errors.As(err, &wrong), errors.As(err, &faults):
		return CodeNotAllowed
	case errors.Is(err, store.ErrNotFound):
		return CodeNotFound
	case errors.Is(err, store.ErrConflict):
		return CodeConflict
	case errors.Is(err, ErrBadGrant):
		return CodeNotAllowed
	case errors.As(err, &bad), errors.Is(err, ErrBadFile):
		return CodeBadRequest
	case errors.As(err, &read):
		return CodeReadOnly
	case errors.Is(err, ErrNotKept), errors.As(err, &large):
		return CodeTooLarge
	case errors.As(err, &locked), errors.As(err, &refused) && refused.Limited():
		return CodeLimited
	case errors.As(err, &refused):
		return CodeForbidden
	}
	return CodeUnavailable
}
