package main

import (
	_ "embed"
	"regexp"
	"strings"

	"github.com/flynnhost/flynn/sdk/channel"
	"github.com/flynnhost/flynn/sdk/webapi"
)

// settingsSchema is the JSON Schema by which the host checks the settings before it starts the plugin. A test generates it from settings.
//
//go:embed settings.schema.json
var settingsSchema []byte

// settings are the keys of [channels.NAME] that this plugin knows.
type settings struct {
	APIURL string `json:"api_url" doc:"The address of the Bot API, or of a Bot API server of your own." default:"https://api.telegram.org"`
	Mode   string `json:"mode" doc:"poll asks Telegram for messages; webhook gets them through the listener for webhooks of this Flynn." default:"poll" enum:"poll,webhook"`
	// Quote selects where an answer quotes the message that it answers: "groups", "always" or "never".
	Quote string `json:"quote" doc:"Where an answer quotes the message that it answers." default:"groups" enum:"groups,always,never"`
	// LinkPreviews lets Telegram fetch the links of an answer to show a preview. Off, since a link that an attacker made the model write can
	// carry away what should stay in the conversation.
	LinkPreviews bool `json:"link_previews" doc:"Let Telegram fetch the links of an answer to show a preview: a link that the model was made to write can carry away what should stay in the conversation." default:"false"`

	token string
}

const defaultAPI = "https://api.telegram.org"

// validToken is the form that BotFather gives to tokens: the bot's id and a secret.
var validToken = regexp.MustCompile(`^[0-9]{3,20}:[A-Za-z0-9_-]{20,100}$`)

func newSettings(c channel.Config) (settings, error) {
	s := settings{APIURL: defaultAPI, Mode: "poll", Quote: "groups"}
	if err := c.Decode(&s); err != nil {
		return s, err
	}
	s.APIURL = strings.TrimRight(s.APIURL, "/")
	s.token = strings.TrimSpace(c.Secrets["token"])
	return s, s.check()
}

func (s settings) check() error {
	var errs channel.FieldErrors
	errs.AddIf(s.token == "", "secrets.token", "set token_env or token_file: @BotFather gives the token")
	errs.AddIf(s.token != "" && !validToken.MatchString(s.token), "secrets.token", `must have the form of a token, "123456789:AAF..."`)
	errs.AddIf(!webapi.Base(s.APIURL), "api_url", `must be an address such as "https://api.telegram.org"`)
	errs.AddIf(s.Mode != "poll" && s.Mode != "webhook", "mode", `must be "poll" or "webhook"`)
	errs.AddIf(s.Quote != "groups" && s.Quote != "always" && s.Quote != "never", "quote", `must be "groups", "always" or "never"`)
	return errs.Err()
}
