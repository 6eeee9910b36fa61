package main

import (
	_ "embed"
	"fmt"
	"net/url"
	"strings"

	"github.com/flynnhost/flynn/sdk/channel"
)

// settingsSchema is what the host holds settings against before it starts the plugin. It is made from settings by a test.
//
//go:embed settings.schema.json
var settingsSchema []byte

// settings are the keys of [channels.NAME] that this plugin knows.
type settings struct {
	API            string   `json:"api"`             // base URL of the REST API
	CDN            []string `json:"cdn"`             // base URLs from which attachments are fetched
	MessageContent *bool    `json:"message_content"` // true; needs the switch of the same name in the developer portal
	Commands       *bool    `json:"commands"`        // true: /ask, /new and /stop are registered
	Guilds         []string `json:"guilds"`          // where they are; everywhere when empty
	CatchUp        int      `json:"catch_up"`        // messages of one channel that are fetched after an absence; 500

	token string
}

func newSettings(c channel.Config) (settings, error) {
	s := settings{
		API: "https://discord.com/api/v10", CDN: []string{"https://cdn.discordapp.com", "https://media.discordapp.net"}, CatchUp: 500,
	}
	if err := c.Decode(&s); err != nil {
		return s, err
	}
	s.API, s.token = strings.TrimRight(s.API, "/"), strings.TrimPrefix(strings.TrimSpace(c.Secrets["token"]), "Bot ")
	return s, s.check(c.StateDir)
}

func (s settings) check(stateDir string) error {
	var errs channel.FieldErrors
	wrong := func(bad bool, path, format string, args ...any) {
		if bad {
			errs = append(errs, channel.FieldError{Path: path, Message: fmt.Sprintf(format, args...)})
		}
	}
	wrong(s.token == "", "secrets.token", "token_env or token_file is missing: the bot's token, from the page Bot of the developer portal")
	wrong(s.token != "" && strings.ContainsAny(s.token, " \t\r\n"), "secrets.token", "a token has no spaces")
	wrong(!isBase(s.API), "api", `must be an address such as "https://discord.com/api/v10"`)
	for i, base := range s.CDN {
		wrong(!isBase(base), fmt.Sprintf("cdn.%d", i), `must be an address such as "https://cdn.discordapp.com"`)
	}
	for i, id := range s.Guilds {
		wrong(!isSnowflake(id), fmt.Sprintf("guilds.%d", i), "%q is not the id of a server", id)
	}
	wrong(s.CatchUp < 0 || s.CatchUp > 10_000, "catch_up", "must be 0 to 10000")
	wrong(stateDir == "", "", "the plugin needs its state folder")
	if len(errs) > 0 {
		return errs
	}
	return nil
}

// isBase tells an address without anything behind its path.
func isBase(s string) bool {
	u, err := url.Parse(s)
	return err == nil && (u.Scheme == "https" || u.Scheme == "http") && u.Host != "" && u.RawQuery == "" && u.Fragment == "" && u.User == nil
}

// isSnowflake tells an id of Discord's: a number of 64 bits.
func isSnowflake(s string) bool {
	return s != "" && len(s) <= 20 && strings.Trim(s, "0123456789") == ""
}

func yes(b *bool) bool { return b == nil || *b }

// The intents are what Discord sends: https://discord.com/developers/docs/events/gateway#gateway-intents.
const (
	intentGuilds          = 1 << 0
	intentGuildMessages   = 1 << 9
	intentGuildReactions  = 1 << 10
	intentDirectMessages  = 1 << 12
	intentDirectReactions = 1 << 13
	intentMessageContent  = 1 << 15
)

func (s settings) intents() int {
	all := intentGuilds | intentGuildMessages | intentGuildReactions | intentDirectMessages | intentDirectReactions
	if yes(s.MessageContent) {
		all |= intentMessageContent
	}
	return all
}
