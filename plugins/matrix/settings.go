package main

import (
	_ "embed"
	"fmt"
	"path"
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
	Homeserver string `json:"homeserver" doc:"The base address of the client-server API, such as https://matrix.example.org."`
	UserID     string `json:"user_id" doc:"The user of this Flynn, such as @flynn:example.org."`
	// AcceptInvites are globs for the people whose invitations are accepted; none by default.
	AcceptInvites []string `json:"accept_invites" doc:"Globs for the people whose invitations are accepted; none if empty."`
	SyncSeconds   int      `json:"sync_seconds" doc:"The length of one wait for messages." default:"30"`

	token string
}

// userID is the specification's format, strict enough to compare.
var userID = regexp.MustCompile(`^@[!-9;-~]{1,200}:[A-Za-z0-9.:\[\]-]{1,200}$`)

func newSettings(c channel.Config) (settings, error) {
	s := settings{SyncSeconds: 30}
	if err := c.Decode(&s); err != nil {
		return s, err
	}
	s.token = c.Secrets["access_token"]
	s.Homeserver = strings.TrimSuffix(s.Homeserver, "/")
	var errs channel.FieldErrors
	errs.AddIf(!webapi.Base(s.Homeserver), "homeserver", `must be an address such as "https://matrix.example.org"`)
	errs.AddIf(!userID.MatchString(s.UserID), "user_id", `must be Flynn's own account, such as "@flynn:example.org"`)
	errs.AddIf(s.token == "", "secrets.access_token", "missing: write access_token_env or access_token_file")
	errs.AddIf(s.SyncSeconds < 0 || s.SyncSeconds > 120, "sync_seconds", "must be 0 to 120")
	for i, glob := range s.AcceptInvites {
		_, err := path.Match(glob, "")
		errs.AddIf(err != nil || !strings.Contains(glob, ":"), fmt.Sprintf("accept_invites.%d", i), `must be a user id or a glob of such: "@ann:example.org", "@*:example.org"`)
	}
	return s, errs.Err()
}

// invited reports whether an invitation of this person is accepted.
func (s settings) invited(by string) bool {
	for _, glob := range s.AcceptInvites {
		if ok, _ := path.Match(glob, by); ok {
			return true
		}
	}
	return false
}

// localpart returns the name in a user id: "ann" of "@ann:example.org".
func localpart(id string) string {
	name, _, _ := strings.Cut(strings.TrimPrefix(id, "@"), ":")
	return name
}
