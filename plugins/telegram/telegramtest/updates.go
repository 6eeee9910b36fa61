package telegramtest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/flynnhost/flynn/sdk/plugintest/platform"
)

// queue holds the updates that the bot has not confirmed, and the way they go.
type queue struct {
	next      int64 // id of the next update
	updates   []Update
	polling   int                     // polls under way
	conflicts int                     // polls that began while another one was under way
	poll      context.CancelCauseFunc // ends the getUpdates under way
	allowed   []string
	hook      webhook
}

// Update is one update: its id, and its other fields by name.
type Update struct {
	ID   int64
	Kind string // "message", "callback_query", ...
	Body any
}

// MarshalJSON implements json.Marshaler.
func (u Update) MarshalJSON() ([]byte, error) {
	return json.Marshal(map[string]any{"update_id": u.ID, u.Kind: u.Body})
}

// webhook is where updates are delivered, and how that went.
type webhook struct {
	url, secret string
	lastError   string
	attempts    int
}

// Push makes an update of any kind and returns its id.
func (s *Server) Push(kind string, body any) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.push(kind, body)
}

// push is Push with s.mu held.
func (s *Server) push(kind string, body any) int64 {
	u := Update{ID: s.queue.next, Kind: kind, Body: body}
	s.queue.next++
	s.queue.updates = append(s.queue.updates, u)
	s.mu.Wake()
	return u.ID
}

// JumpTo makes id the id of the next update, as the real server does after a week without any.
func (s *Server) JumpTo(id int64) {
	defer s.mu.Change()()
	s.queue.next = id
}

// Unconfirmed returns how many updates the bot has not confirmed.
func (s *Server) Unconfirmed() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.queue.updates)
}

// AwaitConfirmed waits until the bot has confirmed every update.
func (s *Server) AwaitConfirmed() {
	s.t.Helper()
	s.mu.Await(s.t, "every update is confirmed", func() bool { return len(s.queue.updates) == 0 })
}

// Conflicts returns how many times a poll began while another one was under way.
func (s *Server) Conflicts() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.queue.conflicts
}

// conflict is the error of one of two pollers.
const conflict = "Conflict: terminated by other getUpdates request; make sure that only one bot instance is running"

// errConflict ends a poll when another one begins.
type errConflict struct{}

func (errConflict) Error() string { return conflict }

// getUpdates answers with the updates from offset on, and waits for one. A further call ends this one with an error.
func (s *Server) getUpdates(ctx context.Context, c Call) (any, *apiError) {
	offset, _ := strconv.ParseInt(c.Params["offset"], 10, 64)
	seconds, _ := strconv.Atoi(c.Params["timeout"])
	limit, err := strconv.Atoi(c.Params["limit"])
	if err != nil || limit < 1 || limit > 100 {
		limit = 100
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	if failure := s.beginPoll(stop, offset, c.Params["allowed_updates"]); failure != nil {
		return nil, failure
	}
	defer s.endPoll()
	late := time.After(time.Duration(min(seconds, 50)) * time.Second)
	for {
		s.mu.Lock()
		batch, changed, revoked := s.batch(limit), s.mu.Next(), s.revoked
		s.mu.Unlock()
		if revoked {
			return nil, &apiError{Code: 401, Description: "Unauthorized"}
		}
		if context.Cause(ctx) == error(errConflict{}) {
			return nil, &apiError{Code: 409, Description: conflict}
		}
		if len(batch) > 0 {
			return batch, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			if context.Cause(ctx) != error(errConflict{}) {
				return []Update{}, nil
			}
		case <-late:
			return []Update{}, nil
		case <-s.end:
			return []Update{}, nil
		}
	}
}

// beginPoll confirms the updates before offset, and ends a pending poll.
func (s *Server) beginPoll(stop context.CancelCauseFunc, offset int64, allowed string) *apiError {
	defer s.mu.Change()()
	if s.queue.hook.url != "" {
		return &apiError{Code: 409, Description: "Conflict: can't use getUpdates method while webhook is active; use deleteWebhook to delete the webhook first"}
	}
	if s.queue.poll != nil {
		s.queue.poll(errConflict{})
	}
	if s.queue.polling++; s.queue.polling > 1 {
		s.queue.conflicts++
	}
	s.queue.poll = stop
	s.setAllowed(allowed)
	switch {
	case offset < 0:
		s.queue.updates = s.queue.updates[max(0, len(s.queue.updates)+int(offset)):]
	case offset > 0:
		for len(s.queue.updates) > 0 && s.queue.updates[0].ID < offset {
			s.queue.updates = s.queue.updates[1:]
		}
	}
	return nil
}

func (s *Server) endPoll() {
	defer s.mu.Change()()
	s.queue.polling--
}

// setAllowed sets a list of kinds; an empty one keeps the earlier one. s.mu is held.
func (s *Server) setAllowed(list string) {
	var kinds []string
	if json.Unmarshal([]byte(list), &kinds) == nil && kinds != nil {
		s.queue.allowed = kinds
	}
}

// Allowed returns the list of kinds of update that the bot asked for last.
func (s *Server) Allowed() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.queue.allowed
}

func (s *Server) batch(limit int) []Update {
	return append([]Update(nil), s.queue.updates[:min(limit, len(s.queue.updates))]...)
}

func (s *Server) setWebhook(c Call) (any, *apiError) {
	if u, err := url.Parse(c.Params["url"]); err != nil || u.Host == "" {
		return nil, badRequest("bad webhook: invalid URL")
	}
	s.queue.hook = webhook{url: c.Params["url"], secret: c.Params["secret_token"]}
	s.setAllowed(c.Params["allowed_updates"])
	s.mu.Wake()
	return true, nil
}

func (s *Server) deleteWebhook(Call) (any, *apiError) {
	s.queue.hook = webhook{}
	s.mu.Wake()
	return true, nil
}

func (s *Server) webhookInfo(Call) (any, *apiError) {
	info := map[string]any{
		"url": s.queue.hook.url, "has_custom_certificate": false, "pending_update_count": len(s.queue.updates),
	}
	if s.queue.hook.lastError != "" {
		info["last_error_message"] = s.queue.hook.lastError
	}
	return info, nil
}

// WebhookAttempts returns how often an update was brought to the webhook that is set.
func (s *Server) WebhookAttempts() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.queue.hook.attempts
}

// WebhookError returns the error of the last update that was posted to the webhook; "" if it was accepted.
func (s *Server) WebhookError() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.queue.hook.lastError
}

// hookPause is the wait before an update that was not taken is brought again.
const hookPause = 20 * time.Millisecond

// deliver posts updates to the webhook, one after the other, each until it is accepted.
func (s *Server) deliver() {
	client := &http.Client{Timeout: 10 * time.Second}
	defer client.CloseIdleConnections()
	for {
		s.mu.Lock()
		hook, batch, changed := s.queue.hook, s.batch(1), s.mu.Next()
		s.mu.Unlock()
		if hook.url == "" || len(batch) == 0 {
			select {
			case <-changed:
				continue
			case <-s.end:
				return
			}
		}
		why := s.bring(client, hook, batch[0])
		s.brought(batch[0].ID, why)
		if why != "" && !platform.Pause(hookPause, s.end) {
			return
		}
	}
}

// bring posts one update and returns the error.
func (s *Server) bring(client *http.Client, hook webhook, u Update) (why string) {
	body, err := json.Marshal(u)
	if err != nil {
		return err.Error()
	}
	header := http.Header{"Content-Type": {"application/json"}}
	if hook.secret != "" {
		header.Set("X-Telegram-Bot-Api-Secret-Token", hook.secret)
	}
	switch status := platform.Post(context.Background(), client, hook.url, header, body); {
	case status == 0:
		return "Connection failed"
	case status/100 != 2:
		return fmt.Sprintf("Wrong response from the webhook: %d %s", status, http.StatusText(status))
	}
	return ""
}

func (s *Server) brought(id int64, why string) {
	defer s.mu.Change()()
	s.queue.hook.attempts++
	s.queue.hook.lastError = why
	if why == "" && len(s.queue.updates) > 0 && s.queue.updates[0].ID == id {
		s.queue.updates = s.queue.updates[1:]
	}
}
