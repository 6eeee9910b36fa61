package config

// Access says who may talk to Flynn over channels.
type Access struct {
	// Mode is the treatment of unlisted people: allowlist is silent, pair gives them a code that an owner can approve, and
	// open answers them. A channel's own access overrides it.
	Mode string `toml:"mode" default:"allowlist" oneof:"allowlist open pair"`
	// Owners and Members are sender ids or globs, "instance:platform-id".
	Owners  []string `toml:"owners"`
	Members []string `toml:"members"`
	// Blocked are never answered, even if members or pairings name them; only an owner's exact id comes before it.
	Blocked []string `toml:"blocked"`
	// PairRole is the role that a pairing gives; a command raises it later.
	PairRole string `toml:"pair_role" default:"guest" oneof:"guest member"`
	// PairNotice tells owners in their private conversations when a stranger asks to be paired.
	PairNotice bool `toml:"pair_notice" default:"true"`
	// RatePerMinute bounds the answered messages of one sender, ConversationRatePerMinute those in one conversation, and
	// UnknownRatePerMinute those of all people together who are neither listed nor paired; pairing codes count as answers.
	RatePerMinute             int `toml:"rate_per_minute" default:"30" range:"1..100_000"`
	ConversationRatePerMinute int `toml:"conversation_rate_per_minute" default:"120" range:"1..100_000"`
	UnknownRatePerMinute      int `toml:"unknown_rate_per_minute" default:"60" range:"1..100_000"`
	// Groups is addressed (answer only when addressed) or all.
	Groups string `toml:"groups" default:"addressed" oneof:"addressed all"`
	// Edits is note (the next turn learns of a message that was changed or taken back), answer (a changed message is
	// answered as a new one) or ignore.
	Edits string `toml:"edits" default:"note" oneof:"note answer ignore"`
	// Reactions is the same for reactions.
	Reactions string `toml:"reactions" default:"note" oneof:"note answer ignore"`
}

// Modes of access.
const (
	AccessAllowlist = "allowlist"
	AccessOpen      = "open"
	AccessPair      = "pair"
)

// AccessOn is the access of one channel instance: [access] with the channel's own keys. The frontends for API clients give
// no codes, since nobody could read them.
func (c *Config) AccessOn(channel string) Access {
	a := c.Access
	own, ok := c.Channels[channel]
	if own.Access != "" {
		a.Mode = own.Access
	}
	if own.AccessGroups != "" {
		a.Groups = own.AccessGroups
	}
	if !ok && a.Mode == AccessPair {
		a.Mode = AccessAllowlist
	}
	return a
}

// access checks the lists of senders.
func (c *checker) access() {
	for _, list := range []struct {
		key      string
		patterns []string
	}{{"owners", c.cfg.Access.Owners}, {"members", c.cfg.Access.Members}, {"blocked", c.cfg.Access.Blocked}} {
		for i, pattern := range list.patterns {
			c.sender(keyPath{"access", list.key}.index(i), pattern)
		}
	}
}
