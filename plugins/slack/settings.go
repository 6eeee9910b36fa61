package main

import (
	_ "embed"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/flynnhost/flynn/sdk/channel"
)

// settingsSchema is what the host holds settings against before it starts the plugin. It is made from settings by a test.
//
//go:embed settings.schema.json
var settingsSchema []byte

// settings are the keys of [channels.NAME] that this plugin knows.
type settings struct {
	APIURL string `json:"api_url"` // https://slack.com/api/
	// Threads says where a mention in a channel is answered: in a thread of its own ("mentions"), or in the channel ("never").
	Threads string `json:"threads"`
	// FollowThreads takes every message of a thread in which Flynn was called as meant for it.
	FollowThreads *bool `json:"follow_threads"` // true
	CatchUpHours  int   `json:"catch_up_hours"` // 24; 0: what was missed stays missed

	app, bot string
}

func newSettings(c channel.Config) (settings, error) {
	s := settings{APIURL: "https://slack.com/api/", Threads: "mentions", CatchUpHours: 24}
	if err := c.Decode(&s); err != nil {
		return s, err
	}
	if !strings.HasSuffix(s.APIURL, "/") {
		s.APIURL += "/"
	}
	s.app, s.bot = c.Secrets["app_token"], c.Secrets["bot_token"]
	return s, s.check()
}

func (s settings) check() error {
	var errs channel.FieldErrors
	wrong := func(bad bool, path, format string, args ...any) {
		if bad {
			errs = append(errs, channel.FieldError{Path: path, Message: fmt.Sprintf(format, args...)})
		}
	}
	wrong(!trustworthy(s.APIURL), "api_url", "must be an https address; http is taken only on this machine")
	wrong(!strings.HasPrefix(s.app, "xapp-"), "secrets.app_token", `must be the app-level token; it begins with "xapp-"`)
	wrong(!strings.HasPrefix(s.bot, "xoxb-"), "secrets.bot_token", `must be the bot user's token; it begins with "xoxb-"`)
	wrong(s.Threads != "mentions" && s.Threads != "never", "threads", `must be "mentions" or "never"`)
	wrong(s.CatchUpHours < 0 || s.CatchUpHours > 168, "catch_up_hours", "must be 0 to 168")
	if len(errs) > 0 {
		return errs
	}
	return nil
}

// trustworthy reports whether a token may go to an address.
func trustworthy(address string) bool {
	u, err := url.Parse(address)
	if err != nil || u.Hostname() == "" {
		return false
	}
	if u.Scheme == "https" || u.Scheme == "wss" {
		return true
	}
	ip := net.ParseIP(u.Hostname())
	return (u.Scheme == "http" || u.Scheme == "ws") && (u.Hostname() == "localhost" || ip != nil && ip.IsLoopback())
}

func (s settings) follow() bool { return s.FollowThreads == nil || *s.FollowThreads }

func (s settings) catchUp() time.Duration { return time.Duration(s.CatchUpHours) * time.Hour }
