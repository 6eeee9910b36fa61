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
	Mode string `json:"mode" doc:"cloud is the Cloud API of a business, linked a device that is linked to an account by a code." enum:"cloud,linked"`

	// Of the Cloud API.
	APIURL           string `json:"api_url" doc:"The base address of the Cloud API."`
	PhoneNumberID    string `json:"phone_number_id" doc:"The id of the phone number at Meta, not the number itself."`
	Template         string `json:"template" doc:"A template with one variable in its body, for answers later than 24 hours."`
	TemplateLanguage string `json:"template_language" doc:"The language of the template."`
	ReadReceipts     bool   `json:"read_receipts" doc:"Show people that their messages were read." default:"true"`
	// ConfirmMS is how long a send waits for WhatsApp to say that it failed after all.
	ConfirmMS int `json:"confirm_ms" doc:"How long a send waits for WhatsApp to say that it failed after all." default:"2000"`

	// Of the linked device.
	DeviceName string `json:"device_name" doc:"The name of the linked device." default:"Flynn"`
	Groups     bool   `json:"groups" doc:"Listen to groups." default:"true"`

	token, secret, verify string
}

func newSettings(c channel.Config) (settings, error) {
	s := settings{APIURL: "https://graph.facebook.com/v23.0", TemplateLanguage: "en", ConfirmMS: 2000, DeviceName: "Flynn", ReadReceipts: true, Groups: true}
	if err := c.Decode(&s); err != nil {
		return s, err
	}
	s.APIURL = strings.TrimSuffix(s.APIURL, "/")
	s.token, s.secret, s.verify = c.Secrets["access_token"], c.Secrets["app_secret"], c.Secrets["verify_token"]
	return s, s.check(c.StateDir)
}

func (s settings) check(stateDir string) error {
	var errs channel.FieldErrors
	switch s.Mode {
	case "cloud":
		errs.AddIf(!webapi.Private(s.APIURL), "api_url", "must be an https address; http is taken only on this machine")
		errs.AddIf(!digits(s.PhoneNumberID), "phone_number_id", "must be the id of the phone number: digits, from the app's page \"API setup\"")
		errs.AddIf(s.token == "", "secrets.access_token", "needs access_token_env or access_token_file: the token of a system user")
		errs.AddIf(s.secret == "", "secrets.app_secret", "needs app_secret_env or app_secret_file: without it anybody could speak for Meta")
		errs.AddIf(len(s.verify) < 8, "secrets.verify_token", "needs verify_token_env or verify_token_file: a word of your own with at least 8 characters")
		errs.AddIf(s.ConfirmMS < 0 || s.ConfirmMS > 10_000, "confirm_ms", "must be 0 to 10000")
		errs.AddIf(s.Template != "" && s.TemplateLanguage == "", "template_language", `must be the template's language, such as "en_US"`)
	case "linked":
		errs.AddIf(stateDir == "", "mode", "a linked device needs a state folder")
		errs.AddIf(s.DeviceName == "" || len(s.DeviceName) > 50, "device_name", "must be 1 to 50 characters")
	default:
		errs.AddIf(true, "mode", `must be "cloud" (a business over Meta's API) or "linked" (a device of a phone)`)
	}
	return errs.Err()
}

func digits(s string) bool {
	return s != "" && len(s) <= 40 && strings.Trim(s, "0123456789") == ""
}

func (s settings) confirm() time.Duration { return time.Duration(s.ConfirmMS) * time.Millisecond }
