package main

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/slack-go/slack"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/flynnhost/flynn/sdk/channel"
	"github.com/flynnhost/flynn/sdk/webapi"
)

// authErrors are the errors that only a person can resolve.
var authErrors = map[string]bool{
	"invalid_auth": true, "not_authed": true, "account_inactive": true, "token_revoked": true, "token_expired": true, "no_permission": true,
	"missing_scope": true, "not_allowed_token_type": true, "org_login_required": true, "access_denied": true, "link_disabled": true,
	"app_disabled": true, "ekm_access_denied": true, "team_access_not_granted": true, "accesslimited": true, "enterprise_is_restricted": true,
	"two_factor_setup_required": true,
}

// accountGone means that the app's user or its workspace was deleted. A new one has another credential and other conversations.
const accountGone = "account_inactive"

// unclearErrors mean that something went wrong inside Slack, and that part of the call may have been carried out.
var unclearErrors = map[string]bool{"fatal_error": true, "internal_error": true, "service_unavailable": true, "request_timeout": true}

// limitErrors are limits without a Retry-After.
var limitErrors = map[string]bool{"ratelimited": true, "rate_limited": true, "message_limit_exceeded": true, "team_added_to_org": true}

const (
	limitPause     = 30 * time.Second // where Slack does not say how long
	permanentPause = 5 * time.Minute  // delay after an error that only a person can resolve
)

// sentBy returns what an error means for the message that was to be sent. A message waits while the app's own credential is at fault, until a
// person renews it. Every other refusal is about the message or its conversation, and final: somebody who invites Flynn to a channel does not
// want the answers of last week.
func sentBy(err error) (channel.Sent, error) {
	notSent := func(after time.Duration, err error) (channel.Sent, error) {
		return channel.Sent{Outcome: channel.OutcomeNotSent, RetryAfter: after}, err
	}
	if err == nil {
		return channel.Sent{Outcome: channel.OutcomeSent}, nil
	}
	if limited, ok := errors.AsType[*slack.RateLimitedError](err); ok {
		return notSent(limited.RetryAfter, err)
	}
	if refused, ok := errors.AsType[slack.SlackErrorResponse](err); ok {
		switch {
		case unclearErrors[refused.Err]:
			return channel.Sent{Outcome: channel.OutcomeUnknown}, err
		case limitErrors[refused.Err]:
			return notSent(limitPause, err)
		case authErrors[refused.Err] && refused.Err != accountGone:
			return notSent(permanentPause, fmt.Errorf("slack refuses, and will until this is changed: %w%s", err, hint(refused)))
		}
		return channel.Sent{Outcome: channel.OutcomeRefused}, fmt.Errorf("slack refuses this message for good: %w%s", err, hint(refused))
	}
	if code, ok := errors.AsType[slack.StatusCodeError](err); ok && code.Code < 500 {
		if code.Code == http.StatusTooManyRequests {
			return notSent(limitPause, err)
		}
		return notSent(permanentPause, err) // of something on the way to Slack, whose own answers have the status 200
	}
	if _, ok := errors.AsType[*strconv.NumError](err); ok { // of a Retry-After that is no number
		return notSent(limitPause, errors.New("slack asks to slow down and does not say for how long"))
	}
	if webapi.Unsent(err) {
		return notSent(0, clean("reach slack", err))
	}
	return channel.Sent{Outcome: channel.OutcomeUnknown}, clean("no answer of slack", err)
}

// final describes an error, with a status code when the same call can never succeed.
func final(doing string, err error) error {
	refused, ok := errors.AsType[slack.SlackErrorResponse](err)
	err = clean(doing, err)
	switch {
	case !ok || unclearErrors[refused.Err] || limitErrors[refused.Err] || authErrors[refused.Err]:
		return err
	case strings.HasSuffix(refused.Err, "_not_found"):
		return status.Error(codes.NotFound, err.Error()+hint(refused))
	}
	return status.Error(codes.FailedPrecondition, err.Error()+hint(refused))
}

// hint returns what a person can do.
func hint(e slack.SlackErrorResponse) string {
	switch e.Err {
	case "not_in_channel", "channel_not_found":
		return " (invite Flynn to the channel: /invite @flynn)"
	case "is_archived":
		return " (the channel is archived)"
	case "msg_too_long":
		return " (the text has more than 40,000 characters)"
	case accountGone:
		return " (the app's user or its workspace was deleted: install the app again and write the new tokens)"
	case "missing_scope":
		return fmt.Sprintf(" (add the scope %s to the app and install it again)", e.Needed)
	case "restricted_action", "restricted_action_read_only_channel", "restricted_action_thread_only_channel":
		return " (the channel's settings do not let Flynn post)"
	}
	return ""
}
