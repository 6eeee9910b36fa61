// Package openai lets clients ask agents in the format of OpenAI's chat completions: an agent is a model.
//
//	GET  /v1/models            the agents that the token may ask
//	GET  /v1/models/AGENT      one of them
//	POST /v1/chat/completions  {"model": AGENT, "messages": [...], "stream": false, "user": SESSION}
//
// Start with Handler. Without a session a request is complete in itself: the agent sees the messages before the last question as the
// history. With one ("user", or the header X-Flynn-Session) the agent remembers, and only the messages after the last answer are new.
// A request that is repeated with the same header Idempotency-Key is answered once; a different request with that key is refused.
//
// Agents have their own tools, model and settings: tools of the request are refused unless the client's key ignore names them, and sampling
// settings are ignored. The agent sees a client's system messages as instructions of that client, apart from the question. Images come in the
// request itself, as data: URLs, and become files of the message. If the question has more than [media] max_files, the request is refused;
// earlier images are shown as far as there is room, the latest first.
package openai

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/flynnhost/flynn/host/gateway/api"
	"github.com/flynnhost/flynn/host/internal/jsonform"
)

// Handler answers clients.
type Handler struct {
	service *api.Service
	now     func() time.Time
}

// New returns a handler.
func New(service *api.Service) *Handler { return &Handler{service, time.Now} }

// ServeClient answers a request of a client whose token was checked.
func (h *Handler) ServeClient(w http.ResponseWriter, r *http.Request, client string) {
	switch {
	case r.URL.Path == "/v1/models" && r.Method == http.MethodGet:
		h.models(w, client)
	case strings.HasPrefix(r.URL.Path, modelPrefix) && r.Method == http.MethodGet:
		h.model(w, client, strings.TrimPrefix(r.URL.Path, modelPrefix))
	case r.URL.Path == "/v1/chat/completions" && r.Method == http.MethodPost:
		h.complete(w, r, client)
	case r.URL.Path == "/v1/chat/completions" || r.URL.Path == "/v1/models" || strings.HasPrefix(r.URL.Path, modelPrefix):
		writeError(w, http.StatusMethodNotAllowed, "invalid_request_error", "method_not_allowed", "this path does not allow the method "+r.Method)
	default:
		writeError(w, http.StatusNotFound, "invalid_request_error", "unknown_url", notServed(r.URL.Path))
	}
}

const modelPrefix = "/v1/models/"

// notServed says what to use instead of a path of OpenAI's API that Flynn does not have.
func notServed(path string) string {
	const served = "the paths are /v1/models, /v1/models/AGENT and /v1/chat/completions"
	api, _, _ := strings.Cut(strings.TrimPrefix(path, "/v1/"), "/")
	switch api {
	case "responses":
		return "the Responses API is not offered: set the client to chat completions, POST /v1/chat/completions; " + served
	case "completions", "assistants", "threads", "embeddings", "images", "audio", "files", "batches", "moderations", "realtime":
		return "OpenAI's " + api + " are not offered: ask an agent by chat completions; " + served
	}
	return served
}

// Refuse answers a client whose token is wrong.
func (h *Handler) Refuse(w http.ResponseWriter, status int, code, text string) {
	writeError(w, status, "authentication_error", code, text)
}

type modelList struct {
	Object string      `json:"object"`
	Data   []modelInfo `json:"data"`
}

type modelInfo struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Created int64  `json:"created"`
	OwnedBy string `json:"owned_by"`
}

func (h *Handler) models(w http.ResponseWriter, client string) {
	list := modelList{Object: "list", Data: []modelInfo{}}
	for _, a := range h.service.Agents(client) {
		list.Data = append(list.Data, infoOf(a))
	}
	writeJSON(w, http.StatusOK, list)
}

func infoOf(a api.Agent) modelInfo { return modelInfo{ID: a.Name, Object: "model", OwnedBy: "flynn"} }

func (h *Handler) model(w http.ResponseWriter, client, name string) {
	for _, a := range h.service.Agents(client) {
		if a.Name == name {
			writeJSON(w, http.StatusOK, infoOf(a))
			return
		}
	}
	noAgent(w, name)
}

func noAgent(w http.ResponseWriter, name string) {
	writeError(w, http.StatusNotFound, "invalid_request_error", "model_not_found",
		fmt.Sprintf("there is no agent %.100q that this token may ask; GET /v1/models lists them", name))
}

// complete answers one question.
func (h *Handler) complete(w http.ResponseWriter, r *http.Request, client string) {
	parts, section := h.service.Ignores(client)
	req, err := decode(r.Body, ignored{parts, section})
	if err != nil {
		refuse(w, err)
		return
	}
	if !slices.ContainsFunc(h.service.Agents(client), func(a api.Agent) bool { return a.Name == req.Model }) {
		noAgent(w, req.Model)
		return
	}
	q := api.Question{
		Channel: api.OpenAI, Client: client, Agent: req.Model, ID: r.Header.Get("Idempotency-Key"), Session: cmp.Or(r.Header.Get("X-Flynn-Session"), req.User),
	}
	var left int
	q.Files, left, err = req.images(q.Session != "", h.service.MaxFiles())
	if err == nil {
		q.Text, err = req.text(q.Session != "", left)
	}
	if err != nil {
		refuse(w, err)
		return
	}
	// The body is read. A turn takes as long as its own limits allow, including the wait for approvals.
	rc := http.NewResponseController(w)
	_ = rc.SetReadDeadline(time.Time{})
	if req.Stream {
		h.stream(w, r, q, req)
		return
	}
	_ = rc.SetWriteDeadline(time.Time{})
	s, err := h.service.Ask(r.Context(), q)
	switch {
	case err != nil:
		refuse(w, err)
	case s.Failed:
		failed(w, s)
	default:
		writeJSON(w, http.StatusOK, completion(s, req.Model, h.now()))
	}
}

type chatCompletion struct {
	ID      string   `json:"id"`
	Object  string   `json:"object"`
	Created int64    `json:"created"`
	Model   string   `json:"model"`
	Choices []choice `json:"choices"`
	Usage   *usage   `json:"usage,omitempty"`
}

type choice struct {
	Index        int     `json:"index"`
	Message      *answer `json:"message,omitempty"`
	Delta        *answer `json:"delta,omitempty"`
	FinishReason *string `json:"finish_reason"`
}

type answer struct {
	Role    string `json:"role,omitempty"`
	Content string `json:"content"`
}

type usage struct {
	Prompt     int `json:"prompt_tokens"`
	Completion int `json:"completion_tokens"`
	Total      int `json:"total_tokens"`
}

func completion(s api.Settlement, model string, now time.Time) chatCompletion {
	return chatCompletion{
		ID: "chatcmpl-" + s.Turn, Object: "chat.completion", Created: now.Unix(), Model: model, Usage: used(s.Usage),
		Choices: []choice{{Message: &answer{Role: "assistant", Content: s.Text}, FinishReason: stop()}},
	}
}

func stop() *string {
	s := "stop"
	return &s
}

func used(u api.Usage) *usage {
	return &usage{Prompt: u.Input, Completion: u.Output, Total: u.Input + u.Output}
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	if text, err := jsonform.Marshal(v); err == nil {
		_, _ = w.Write(append(text, '\n')) // fails only if the client has gone
	}
}

type apiError struct {
	Message string  `json:"message"`
	Type    string  `json:"type"`
	Code    string  `json:"code"`
	Param   *string `json:"param"`
}

// writeError answers in OpenAI's form. OpenAI's client libraries retry on many statuses, which would ask a question twice.
func writeError(w http.ResponseWriter, status int, kind, code, text string) {
	w.Header().Set("X-Should-Retry", "false")
	writeJSON(w, status, map[string]apiError{"error": {Message: text, Type: kind, Code: code}})
}

// failed answers a question whose turn failed.
func failed(w http.ResponseWriter, s api.Settlement) {
	if s.Refused {
		writeError(w, http.StatusForbidden, "permission_error", "not_admitted", s.Text)
		return
	}
	if s.Limited {
		w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(s.RetryAfter.Seconds()))))
		writeError(w, http.StatusTooManyRequests, "rate_limit_error", "rate_limit_exceeded", s.Text)
		return
	}
	writeError(w, http.StatusInternalServerError, "server_error", "turn_failed", s.Text)
}

// refuse answers with an error.
func refuse(w http.ResponseWriter, err error) {
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		writeError(w, http.StatusRequestEntityTooLarge, "invalid_request_error", "request_too_large", fmt.Sprintf("the request has more than %d bytes: "+
			"send fewer or smaller images, or name a session in the field user and leave out earlier messages", large.Limit))
	case errors.Is(err, api.ErrInvalid):
		writeError(w, http.StatusBadRequest, "invalid_request_error", "invalid_request", err.Error())
	case errors.Is(err, api.ErrReused):
		writeError(w, http.StatusUnprocessableEntity, "invalid_request_error", "idempotency_key_reused", err.Error())
	default:
		writeError(w, http.StatusServiceUnavailable, "server_error", "unavailable", "the host cannot accept the question now")
	}
}
