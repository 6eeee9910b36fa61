package main

import (
	_ "embed"
	"fmt"
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
	API            string   `json:"api" doc:"The base address of the REST API."`
	CDN            []string `json:"cdn" doc:"The base addresses from which attachments are fetched."`
	MessageContent bool     `json:"message_content" doc:"Read messages that do not mention the bot; needs the switch of the same name in the developer portal." default:"true"`
	Commands       bool     `json:"commands" doc:"Register /ask, /new and /stop." default:"true"`
	Guilds         []string `json:"guilds" doc:"The ids of the servers that have them; all if empty."`
	CatchUp        int      `json:"catch_up" doc:"Messages of one channel that are fetched after an absence." default:"500"`

	token string
}

func newSettings(c channel.Config) (settings, error) {
	s := settings{
		API: "https://discord.com/api/v10", CDN: []string{"https://cdn.discordapp.com", "https://media.discordapp.net"}, CatchUp: 500,
		MessageContent: true, Commands: true,
	}
	if err := c.Decode(&s); err != nil {
		return s, err
	}
	s.API, s.token = strings.TrimRight(s.API, "/"), strings.TrimPrefix(strings.TrimSpace(c.Secrets["token"]), "Bot ")
	return s, s.check(c.StateDir)
}

func (s settings) check(stateDir string) error {
	var errs channel.FieldErrors
	errs.AddIf(s.token == "", "secrets.token", "token_env or token_file is missing: the bot's token, from the page Bot of the developer portal")
	errs.AddIf(s.token != "" && strings.ContainsAny(s.token, " \t\r\n"), "secrets.token", "a token has no spaces")
	errs.AddIf(!webapi.Base(s.API), "api", `must be an address such as "https://discord.com/api/v10"`)
	for i, base := range s.CDN {
		errs.AddIf(!webapi.Base(base), fmt.Sprintf("cdn.%d", i), `must be an address such as "https://cdn.discordapp.com"`)
	}
	for i, id := range s.Guilds {
		errs.AddIf(!isSnowflake(id), fmt.Sprintf("guilds.%d", i), "%q is not the id of a server", id)
	}
	errs.AddIf(s.CatchUp < 0 || s.CatchUp > 10_000, "catch_up", "must be 0 to 10000")
	errs.AddIf(stateDir == "", "", "the plugin needs its state folder")
	return errs.Err()
}

// isSnowflake reports whether s is an id of Discord: a number of 64 bits.
func isSnowflake(s string) bool {
	return s != "" && len(s) <= 20 && strings.Trim(s, "0123456789") == ""
}

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
	if s.MessageContent {
		all |= intentMessageContent
	}
	return all
}
