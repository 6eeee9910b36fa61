package main

import (
	_ "embed"
	"encoding/base64"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/flynnhost/flynn/sdk/channel"
)

// settingsSchema is the JSON Schema by which the host checks the settings before it starts the plugin. A test generates it from settings.
//
//go:embed settings.schema.json
var settingsSchema []byte

// settings are the keys of [channels.NAME] that this plugin knows.
type settings struct {
	Path       string `json:"path" doc:"The path below that of the instance at which messages arrive."`
	DeliverURL string `json:"deliver_url" doc:"The address that answers are posted to."`
	TimeoutMS  int    `json:"timeout_ms" doc:"The longest time of one post." default:"10000"`

	secret []byte
}

// Bounds on the secret, in bytes, as Standard Webhooks has them.
const (
	minSecret = 24
	maxSecret = 64
)

func newSettings(c channel.Config) (settings, error) {
	s := settings{TimeoutMS: 10_000}
	if err := c.Decode(&s); err != nil {
		return s, err
	}
	var errs channel.FieldErrors
	u, err := url.Parse(s.DeliverURL)
	errs.AddIf(err != nil || u.Host == "" || u.User != nil || u.Scheme != "https" && u.Scheme != "http",
		"deliver_url", "must be the http or https address that answers are posted to")
	errs.AddIf(s.TimeoutMS < 100 || s.TimeoutMS > 60_000, "timeout_ms", "must be 100 to 60000")
	s.secret, err = readSecret(c.Secrets["secret"])
	errs.AddIf(err != nil, "secrets.secret", "%v", err)
	return s, errs.Err()
}

// readSecret takes "whsec_" and base64.
func readSecret(text string) ([]byte, error) {
	raw, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(text, "whsec_"))
	if err != nil || len(raw) < minSecret || len(raw) > maxSecret {
		return nil, fmt.Errorf("must be whsec_ and the base64 of %d to %d random bytes: echo whsec_$(head -c 32 /dev/urandom | base64)", minSecret, maxSecret)
	}
	return raw, nil
}

func (s settings) timeout() time.Duration { return time.Duration(s.TimeoutMS) * time.Millisecond }
