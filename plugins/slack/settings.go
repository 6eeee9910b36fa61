package main

import (
	_ "embed"
	"strings"
	"time"

	"github.com/flynnhost/flynn/sdk/channel"
	"github.com/flynnhost/flynn/sdk/webapi"
)

// settingsSchema is the JSON Schema by which the host checks the settings before it starts the plugin. A test generates it from settings.
//
//go:embed settings.schema.json
var settingsSchema []byte

// settings are the keys of [channels.NAME] that this plugin knows.
type settings struct {
	APIURL string `json:"api_url" doc:"The base address of the Web API." default:"https://slack.com/api/"`
	// Threads says where a mention in a channel is answered: in a thread of its own ("mentions"), or in the channel ("never").
	Threads string `json:"threads" doc:"Where a mention in a channel is answered: mentions in a thread of its own, never in the channel." enum:"mentions,never"`
	// FollowThreads takes every message of a thread in which Flynn was called as meant for it.
	FollowThreads bool `json:"follow_threads" doc:"Take every message of a thread in which Flynn was called as meant for it." default:"true"`
	CatchUpHours  int  `json:"catch_up_hours" doc:"How far back missed messages are fetched; 0 fetches none." default:"24"`

	app, bot string
}

func newSettings(c channel.Config) (settings, error) {
	s := settings{APIURL: "https://slack.com/api/", Threads: "mentions", CatchUpHours: 24, FollowThreads: true}
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
	errs.AddIf(!webapi.Private(s.APIURL), "api_url", "must be an https address; http is taken only on this machine")
	errs.AddIf(!strings.HasPrefix(s.app, "xapp-"), "secrets.app_token", `must be the app-level token; it begins with "xapp-"`)
	errs.AddIf(!strings.HasPrefix(s.bot, "xoxb-"), "secrets.bot_token", `must be the bot user's token; it begins with "xoxb-"`)
	errs.AddIf(s.Threads != "mentions" && s.Threads != "never", "threads", `must be "mentions" or "never"`)
	errs.AddIf(s.CatchUpHours < 0 || s.CatchUpHours > 168, "catch_up_hours", "must be 0 to 168")
	return errs.Err()
}

func (s settings) catchUp() time.Duration { return time.Duration(s.CatchUpHours) * time.Hour }
