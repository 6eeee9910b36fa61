package gateway

import (
	"cmp"
	"context"
	"embed"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"strconv"
	"time"

	"github.com/flynnhost/flynn/host/message"
)

//go:embed page
var page embed.FS

// historyLimit is the number of entries that a client gets.
const historyLimit = 500

// handler is every route of the gateway.
//
//	GET  /                          the chat page, no token
//	GET  /healthz                   the process serves, no token
//	GET  /readyz                    messages are accepted and answered, no token
//	GET  /metrics                   Prometheus, with the token (authorization: credentials_file)
//	GET  /api/v1/socket             WebSocket, token in its first frame
//	GET  /api/v1/status             Status
//	GET  /api/v1/conversations      [ConversationInfo]
//	POST /api/v1/conversations/delete       DeleteConversation
//	GET  /api/v1/history            [Entry]; ?channel=&conversation=&limit=
//	GET  /api/v1/approvals          [Approval]
//	POST /api/v1/approvals/{id}     {"grant":true}; {"grant":true,"scope":"standing","span":"720h","pattern":"grep -rn * docs"}
//	GET  /api/v1/grants             [Grant]
//	POST /api/v1/grants/{id}/revoke {}
//	GET  /api/v1/audit              [store.AuditRow]; ?kind=&subject=&since=&limit=
//	GET  /api/v1/access             [AccessEntry]
//	POST /api/v1/access/decide      {"code","approve"}; answers AccessEntry
//	POST /api/v1/access/revoke      {"sender"}
//	POST /api/v1/access/role        {"sender","role"}
//	POST /api/v1/files              the bytes of a file, ?channel=&name=; answers File, whose handle goes into a message
//	POST /api/v1/messages           {"id","channel","conversation","text","files"}; 202 when durable
//	POST /api/v1/memory/forget      Forget; answers [memory.Note]
//	POST /api/v1/policies/{name}/rollback  Rollback; answers PolicyStatus
//	POST /api/v1/reload             {}; answers Reloaded
//	POST /api/v1/stop               {"channel","conversation"}
//	GET  /api/v1/schedules          [ScheduleStatus]
//	GET  /api/v1/schedules/{name}/runs      [ScheduleRun]
//	POST /api/v1/schedules/{name}/run       {}; answers ScheduleRun
//	POST /api/v1/schedules/{name}/resume    {}
//	POST /api/v1/sessions/import    a file of flynn session export; answers ImportedSession
//	POST /api/v1/sessions/delete    DeleteSession
//	POST /api/v1/halt               {"reason"}; halts everything everywhere
//	POST /api/v1/resume             {}; ends the halt
//	POST /api/v1/tools/judge        DryRunCall; answers DryRunResult
//	GET  /api/v1/usage              [UsageSum]; ?by=&since=
//	GET  /api/v1/usage/held         [Held]
//	GET  /api/v1/turns/{id}         TurnTrace; {id} may be message/N
//	GET  /api/v1/logs               [hostlog.Record]; ?after=SEQ&level=&area=&channel=&session=&turn=&limit=
//	GET  /api/v1/logs/repeats       [hostlog.Repeat], of the last hour
//	GET  /api/v1/plugins            [PluginStatus]
//	GET  /api/v1/plugins/{instance}/logs    [PluginLine]; ?after=SEQ
//	GET  /api/v1/plugins/{instance}/login   PluginLogin, a secret
//	POST /api/v1/plugins/{instance}/restart {}
//	     /v1/...                    OpenAI's chat completions, with the token of a client as well
//	     /mcp                       the Model Context Protocol, likewise
func (s *Server) handler() http.Handler {
	mux := http.NewServeMux()
	files, err := fs.Sub(page, "page")
	if err != nil {
		panic(err) // the folder is part of the program
	}
	mux.Handle("GET /", http.FileServerFS(files))
	mux.HandleFunc("GET /healthz", s.healthz)
	mux.HandleFunc("GET /readyz", s.readyz)
	mux.Handle("GET /metrics", s.authorized(s.metrics.Handler.ServeHTTP))
	mux.HandleFunc("GET "+SocketPath, s.socket)
	mux.Handle("GET /api/v1/status", s.authorized(s.get(backendTimeout, s.status)))
	mux.Handle("GET /api/v1/conversations", s.authorized(s.get(backendTimeout, s.conversations)))
	mux.Handle("POST /api/v1/conversations/delete", s.authorized(post(s, deleteTimeout, s.deleteConversation)))
	mux.Handle("GET /api/v1/history", s.authorized(s.get(backendTimeout, s.history)))
	mux.Handle("POST /api/v1/messages", s.authorized(s.send))
	mux.Handle("POST /api/v1/stop", s.authorized(post(s, backendTimeout, s.stop)))
	mux.Handle("GET /api/v1/approvals", s.authorized(s.get(backendTimeout, s.approvals)))
	mux.Handle("POST /api/v1/approvals/{id}", s.authorized(post(s, backendTimeout, s.decideOne)))
	mux.Handle("GET /api/v1/grants", s.authorized(s.get(backendTimeout, s.grants)))
	mux.Handle("POST /api/v1/grants/{id}/revoke", s.authorized(post(s, backendTimeout, s.revoke)))
	mux.Handle("GET /api/v1/audit", s.authorized(s.get(backendTimeout, s.audit)))
	s.routeSubjects(mux)
	s.routeClients(mux)
	return s.admit(s.metrics.Measure(mux))
}

// routeSubjects adds the paths of the subjects that the backend has.
func (s *Server) routeSubjects(mux *http.ServeMux) {
	handle := func(there bool, pattern string, h http.HandlerFunc) {
		if there {
			mux.Handle(pattern, s.authorized(h))
		}
	}
	b := s.backend
	handle(b.Access != nil, "GET /api/v1/access", s.get(backendTimeout, s.listAccess))
	handle(b.Access != nil, "POST /api/v1/access/decide", post(s, backendTimeout, s.decidePairing))
	handle(b.Access != nil, "POST /api/v1/access/revoke", post(s, backendTimeout, s.revokePairing))
	handle(b.Access != nil, "POST /api/v1/access/role", post(s, backendTimeout, s.setPairingRole))
	handle(b.Explains != nil, "GET /api/v1/turns/{id...}", s.get(backendTimeout, s.explain))
	handle(b.Explains != nil, "GET /api/v1/turns", s.get(backendTimeout, s.explainLast))
	handle(b.Files != nil, "POST "+FilesPath, s.keepFile)
	handle(b.Halter != nil, "POST /api/v1/halt", s.halt(true))
	handle(b.Halter != nil, "POST /api/v1/resume", s.halt(false))
	handle(b.DryRuns != nil, "POST /api/v1/tools/judge", post(s, dryRunTimeout, s.dryRun))
	handle(b.Memory != nil, "POST /api/v1/memory/forget", post(s, deleteTimeout, s.forgetNotes))
	handle(b.Plugins != nil, "GET /api/v1/plugins", s.get(backendTimeout, s.listPlugins))
	handle(b.Logs != nil, "GET /api/v1/logs", s.get(backendTimeout, s.logs))
	handle(b.Logs != nil, "GET /api/v1/logs/repeats", s.get(backendTimeout, s.repeats))
	handle(b.Plugins != nil, "GET /api/v1/plugins/{instance}/logs", s.onInstance(s.pluginLogs))
	handle(b.Plugins != nil, "GET /api/v1/plugins/{instance}/login", s.onInstance(s.pluginLogin))
	handle(b.Plugins != nil, "POST /api/v1/plugins/{instance}/restart", s.onInstance(s.restartPlugin))
	handle(b.Policies != nil, "POST /api/v1/policies/{name}/rollback", post(s, rollbackTimeout, s.rollbackPolicy))
	handle(b.Reloads != nil, "POST /api/v1/reload", post(s, reloadTimeout, s.reload))
	handle(b.Schedules != nil, "GET /api/v1/schedules", s.get(backendTimeout, s.listSchedules))
	handle(b.Schedules != nil, "GET /api/v1/schedules/{name}/runs", s.onSchedule(s.scheduleRuns))
	handle(b.Schedules != nil, "POST /api/v1/schedules/{name}/run", s.onSchedule(s.runSchedule))
	handle(b.Schedules != nil, "POST /api/v1/schedules/{name}/resume", s.onSchedule(s.resumeSchedule))
	handle(b.Sessions != nil, "POST "+ImportPath, s.importSession)
	handle(b.Sessions != nil, "POST "+DeleteSessionPath, post(s, deleteTimeout, s.deleteSession))
	handle(b.Usages != nil, "GET /api/v1/usage", s.get(backendTimeout, s.usage))
	handle(b.Usages != nil, "GET /api/v1/usage/held", s.get(backendTimeout, s.held))
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

func (s *Server) status(ctx context.Context, _ *http.Request) (any, error) {
	return s.backend.Status.Status(ctx), nil
}

func (s *Server) conversations(ctx context.Context, _ *http.Request) (any, error) {
	list, err := s.backend.Conversations.Conversations(ctx)
	return orEmpty(list), err
}

func (s *Server) history(ctx context.Context, r *http.Request) (any, error) {
	q := r.URL.Query()
	limit, err := strconv.Atoi(cmp.Or(q.Get("limit"), strconv.Itoa(historyLimit)))
	if err != nil || limit < 1 || limit > historyLimit {
		return nil, badRequest(fmt.Sprintf("limit must be 1 to %d", historyLimit))
	}
	if !validName(q.Get("channel")) || !validName(q.Get("conversation")) {
		return nil, badRequest("name a channel and a conversation")
	}
	list, err := s.backend.Conversations.History(ctx, q.Get("channel"), q.Get("conversation"), limit)
	return orEmpty(list), err
}

func (s *Server) send(w http.ResponseWriter, r *http.Request) {
	var body struct {
		ID           string `json:"id"`
		Channel      string `json:"channel"`
		Conversation string `json:"conversation"`
		Text         string `json:"text"`
		// Files are handles that POST /api/v1/files has answered.
		Files []string `json:"files"`
	}
	if !readBody(w, r, &body) || !writable(w, body.Channel, body.Conversation) {
		return
	}
	if err := checkSend(body.ID, body.Text, body.Files); err != nil {
		writeError(w, http.StatusBadRequest, CodeBadRequest, err.Error())
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), backendTimeout)
	defer cancel()
	if err := s.backend.Conversations.Submit(ctx, ownMessage(body.Channel, body.Conversation, body.ID, body.Text, body.Files)); err != nil {
		s.answer(w, nil, err)
		return
	}
	writeJSON(w, http.StatusAccepted, map[string]string{"id": body.ID})
}

type inConversation struct {
	Channel      string `json:"channel"`
	Conversation string `json:"conversation"`
}

func (s *Server) stop(ctx context.Context, _ *http.Request, body inConversation) (any, error) {
	if !validName(body.Channel) || !validName(body.Conversation) {
		return nil, badRequest("name a channel and a conversation")
	}
	return map[string]bool{"stopped": true}, s.backend.Conversations.Stop(ctx, body.Channel, body.Conversation)
}

// owner is the sender of everything that comes through the gateway: the token proves it.
const owner = "owner"

func ownerKey(channel string) string { return string(message.NewSenderKey(channel, owner)) }

func ownMessage(channel, conversation, id, text string, files []string) message.Message {
	now := time.Now().UTC()
	return message.Message{
		Channel:      channel,
		EventID:      id,
		Conversation: message.Conversation{ID: conversation, Kind: message.DM},
		Sender:       message.Sender{ID: owner, Name: owner, Account: owner},
		Text:         text,
		Attachments:  attached(files),
		Addressed:    true,
		SentAt:       now,
		ReceivedAt:   now,
	}
}

func writable(w http.ResponseWriter, channel, conversation string) bool {
	if !localFrontend(channel) {
		writeError(w, http.StatusForbidden, CodeReadOnly, `channel must be "web" or "terminal"`)
		return false
	}
	if err := checkConversation(channel, conversation); err != nil {
		writeError(w, http.StatusBadRequest, CodeBadRequest, err.Error())
		return false
	}
	return true
}
