// Package session works on whole sessions: it exports them to files, imports them on another host, deletes them on request, and deletes
// those that have expired.
//
// Start with Export and Import for files, and with Keeper for deletion. The package answers no message; package agent makes and
// continues sessions.
//
// A file is JSON lines. The first is the header, the last the end, and between them stands each turn with its
// steps, oldest first:
//
//	{"flynn_session":1,"key":"irc:ann:main","agent":"main","exported":"2026-11-21T12:00:00Z"}
//	{"turn":{"id":"…","channel":"irc","conversation":{…},"sender":"irc:ann","state":"done","started":"…","ended":"…"}}
//	{"step":{"kind":"user","at":"…","data":{…}}}
//	{"step":{"kind":"model","at":"…","data":{…}}}
//	{"summary":{"id":"…","through":"…","turns":1,"text":"…","labels":["…"],"at":"…"}}
//	{"end":{"turns":1,"steps":2}}
//
// The number in the header is the version of the format. A step's data is its record as the
// store has it, including provenance labels. Since version 2 a file has the summary that replaces the first turns, if there is one.
// Running turns are left out. Unanswered messages, unsent replies, approvals and the files of
// the workspace are not part of a session.
package session

import (
	"encoding/json"
	"time"

	"github.com/flynnhost/flynn/host/agent/turnlog"
	"github.com/flynnhost/flynn/host/message"
)

// Version is that of the files which Export writes.
const Version = 2

// oldest is the oldest version that is read.
const oldest = 1

// Bounds of a file.
const (
	maxLine  = 8 << 20   // bytes
	maxTurns = 1_000_000 // of a session
	maxBytes = 256 << 20 // of a file
	maxSteps = 1_000_000 // of a session
	maxText  = 1 << 20   // bytes of a summary
	maxID    = 512       // bytes of a name
)

type header struct {
	Version  int                `json:"flynn_session"`
	Key      message.SessionKey `json:"key"`
	Agent    string             `json:"agent"`
	Exported time.Time          `json:"exported"`
}

// line is any line but the first. One of its fields is set.
type line struct {
	Turn *turnLine `json:"turn,omitempty"`
	Step *stepLine `json:"step,omitempty"`
	End  *endLine  `json:"end,omitempty"`

	Summary *summaryLine `json:"summary,omitempty"`
}

type turnLine struct {
	ID           string               `json:"id"`
	Channel      string               `json:"channel"`
	Conversation message.Conversation `json:"conversation"`
	Sender       message.SenderKey    `json:"sender"`
	State        turnlog.TurnState    `json:"state"`
	Error        string               `json:"error,omitempty"`
	Started      time.Time            `json:"started"`
	Ended        time.Time            `json:"ended"`
}

type stepLine struct {
	Kind turnlog.StepKind `json:"kind"`
	At   time.Time        `json:"at"`
	Data json.RawMessage  `json:"data"`
}

type summaryLine struct {
	ID      string    `json:"id"`
	Through string    `json:"through"` // the last turn that it covers
	Turns   int       `json:"turns"`
	Text    string    `json:"text"`
	Labels  []string  `json:"labels"`
	At      time.Time `json:"at"`
}

type endLine struct {
	Turns int `json:"turns"`
	Steps int `json:"steps"`
}
