package gateway

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"time"

	"github.com/flynnhost/flynn/host/message"
)

// Supposed is a call that nobody makes, to be judged as if an agent made it now in answer to a message.
type Supposed struct {
	Tool  string          `json:"tool"`
	Agent string          `json:"agent"`
	Args  json.RawMessage `json:"args"`

	Channel      string       `json:"channel"`
	Sender       string       `json:"sender"` // as the channel knows it
	Account      string       `json:"account,omitempty"`
	SenderRoles  []string     `json:"sender_roles,omitempty"`
	Conversation string       `json:"conversation"`
	Kind         message.Kind `json:"kind"`
	Parent       string       `json:"parent,omitempty"`
	Text         string       `json:"text,omitempty"`
	Labels       []string     `json:"labels,omitempty"` // that the session has besides its own
}

// Judgement is the decision about a Supposed call.
type Judgement struct {
	Tool        string          `json:"tool"`
	Agent       string          `json:"agent"`
	Session     string          `json:"session"`
	Sender      string          `json:"sender"`
	Role        string          `json:"role"`
	NotAdmitted string          `json:"not_admitted,omitempty"` // why such a message is not answered at all
	Labels      []string        `json:"labels"`
	Args        json.RawMessage `json:"args,omitempty"` // canonical
	Action      string          `json:"action"`         // run, ask or deny
	Where       string          `json:"where,omitempty"`
	Sandbox     bool            `json:"sandbox"`
	Elevated    bool            `json:"elevated"`
	Reasons     []string        `json:"reasons"` // each restriction, in the order in which they were added
	Refusal     string          `json:"refusal,omitempty"`
	Policies    []PolicyAnswer  `json:"policies"`
	// Lease is what would be used in place of asking a person.
	Lease *Grant `json:"lease,omitempty"`
}

// PolicyAnswer is what one policy says.
type PolicyAnswer struct {
	Name   string `json:"name"`
	Digest string `json:"digest"`
	Answer string `json:"answer"`
	Reason string `json:"reason,omitempty"`
	Error  string `json:"error,omitempty"`
	Fuel   int64  `json:"fuel"`
	Nanos  int64  `json:"nanos"`
}

// Judges decides about calls that nobody makes.
type Judges interface {
	// Judge returns what enforcement would decide; it runs nothing, asks nobody and uses nothing up. store.ErrNotFound if there is no such agent or channel.
	Judge(ctx context.Context, call Supposed) (Judgement, error)
}

// judgeTimeout bounds a judgement, for which policies may have to be asked.
const judgeTimeout = 25 * time.Second

func (s *Server) judge(w http.ResponseWriter, r *http.Request) {
	var body Supposed
	if !readBody(w, r, &body) {
		return
	}
	names := []string{body.Tool, body.Agent, body.Channel, body.Sender, body.Conversation}
	kinds := []message.Kind{message.DM, message.Group, message.Thread}
	if len(body.Args) == 0 || slices.ContainsFunc(names, func(n string) bool { return !validName(n) }) || !slices.Contains(kinds, body.Kind) {
		writeError(w, http.StatusBadRequest, CodeBadRequest, "say tool, agent, args, channel, sender, conversation and kind (dm, group or thread)")
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), judgeTimeout)
	defer cancel()
	judgement, err := s.backend.Judges.Judge(ctx, body)
	s.answer(w, judgement, err)
}
