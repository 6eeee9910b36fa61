// Package session looks after whole sessions: it writes one to a file and reads it back on another host, deletes those that people name, and
// those that are past their time.
//
// Start with Export and Import for files, and with Keeper for deletion. The package answers no message: package agent makes sessions, and
// goes on with them.
//
// A file is JSON lines. The first is the header, the last the end, and in between comes each turn with its
// steps, oldest first:
//
//	{"flynn_session":1,"key":"irc:ann:main","agent":"main","exported":"2026-11-21T12:00:00Z"}
//	{"turn":{"id":"…","channel":"irc","conversation":{…},"sender":"irc:ann","state":"done","started":"…","ended":"…"}}
//	{"step":{"kind":"user","at":"…","data":{…}}}
//	{"step":{"kind":"model","at":"…","data":{…}}}
//	{"summary":{"id":"…","through":"…","turns":1,"text":"…","labels":["…"],"at":"…"}}
//	{"end":{"turns":1,"steps":2}}
//
// The number in the header is the version of the format; a reader takes the versions that it knows. A step's data is its record as the
// store has it, provenance labels included. The summary that stands for the first turns is there where a session has one, since version 2.
// Turns that run are left out. Messages that wait, replies under way, approvals and files of
// the workspace are no part of a session.
package session

import (
	"encoding/json"
	"time"

	"github.com/flynnhost/flynn/host/agent/turnlog"
	"github.com/flynnhost/flynn/host/message"
)

// Version is that of the files which Export writes.
const Version = 2

// oldest is the first version that is read.
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
	Version  int       `json:"flynn_session"`
	Key      string    `json:"key"`
	Agent    string    `json:"agent"`
	Exported time.Time `json:"exported"`
}

// line is any line but the first; one of its fields is set.
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
	Through string    `json:"through"` // the last turn that it stands for
	Turns   int       `json:"turns"`
	Text    string    `json:"text"`
	Labels  []string  `json:"labels"`
	At      time.Time `json:"at"`
}

type endLine struct {
	Turns int `json:"turns"`
	Steps int `json:"steps"`
}
