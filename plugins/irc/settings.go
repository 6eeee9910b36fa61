package main

import (
	_ "embed"
	"fmt"
	"net"
	"time"

	"github.com/flynnhost/flynn/sdk/channel"
)

// settingsSchema is the JSON Schema by which the host checks the settings before it starts the plugin. A test generates it from settings.
//
//go:embed settings.schema.json
var settingsSchema []byte

// settings are the keys of [channels.NAME] that this plugin knows.
type settings struct {
	Address  string   `json:"address" doc:"The server, as host:port."`
	TLS      bool     `json:"tls" doc:"Encrypt the connection." default:"true"`
	Nick     string   `json:"nick" doc:"The name in the network." default:"flynn"`
	User     string   `json:"user" doc:"The user name of the login." default:"flynn"`
	RealName string   `json:"realname" doc:"The name that others are shown." default:"Flynn"`
	Channels []string `json:"channels" doc:"Channels to join after every connect, such as #flynn."`
	// Identity selects the id of a sender: "account", which the network's services verify, or "nick", which anybody can take while it is
	// free.
	// plugin.toml names the latter under claimed_when.
	Identity string `json:"identity" doc:"The id of a sender: account, which the services of the network verify, or nick, which anybody can take while it is free." default:"account" enum:"account,nick"`
	Account  string `json:"account" doc:"The account for SASL, with the secret sasl_password."`
	// FloodBurst lines go out at once, then one each FloodIntervalMS.
	FloodBurst      int `json:"flood_burst" doc:"So many lines go out at once, the others one by one." default:"5"`
	FloodIntervalMS int `json:"flood_interval_ms" doc:"The milliseconds between them." default:"2000"`
	MaxLines        int `json:"max_lines" doc:"The longest answer, in lines." default:"40"`

	password, sasl string
}

// The values of identity: how a sender is identified.
const (
	identityAccount = "account"
	identityNick    = "nick"
)

func newSettings(c channel.Config) (settings, error) {
	s := settings{
		TLS: true, Nick: "flynn", RealName: "Flynn", Identity: identityAccount, FloodBurst: 5, FloodIntervalMS: 2000, MaxLines: 40,
	}
	if err := c.Decode(&s); err != nil {
		return s, err
	}
	if s.User == "" {
		s.User = "flynn"
	}
	s.password, s.sasl = c.Secrets["password"], c.Secrets["sasl_password"]
	return s, s.check()
}

func (s settings) check() error {
	var errs channel.FieldErrors
	_, _, err := net.SplitHostPort(s.Address)
	errs.AddIf(err != nil, "address", `must be "host:port", such as "irc.libera.chat:6697"`)
	errs.AddIf(!validTarget(s.Nick) || isChannel(s.Nick) || len(s.Nick) > 30, "nick", "%q cannot be a nickname", s.Nick)
	errs.AddIf(!validTarget(s.User), "user", "%q cannot be a user name", s.User)
	for i, c := range s.Channels {
		errs.AddIf(!validTarget(c) || !isChannel(c), fmt.Sprintf("channels.%d", i), "%q is not a channel: names begin with #", c)
	}
	errs.AddIf(s.Identity != identityAccount && s.Identity != identityNick, "identity", `must be "account" or "nick"`)
	errs.AddIf(s.Account != "" && s.sasl == "", "secrets.sasl_password", "account needs sasl_password_env or sasl_password_file beside it")
	errs.AddIf(s.FloodBurst < 1 || s.FloodBurst > 100, "flood_burst", "must be 1 to 100")
	errs.AddIf(s.FloodIntervalMS < 0 || s.FloodIntervalMS > 60_000, "flood_interval_ms", "must be 0 to 60000")
	errs.AddIf(s.MaxLines < 1 || s.MaxLines > 10_000, "max_lines", "must be 1 to 10000")
	return errs.Err()
}

func (s settings) interval() time.Duration {
	return time.Duration(s.FloodIntervalMS) * time.Millisecond
}
