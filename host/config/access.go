package config

// Access says who may talk to Flynn over channels.
type Access struct {
	// Mode is how unlisted people are treated: allowlist is silent, pair gives them a code that an owner can approve, and
	// open answers them. A channel's own access comes before it.
	Mode string `toml:"mode" default:"allowlist" oneof:"allowlist open pair"`
	// Owners and Members are sender ids or globs, "instance:platform-id".
	Owners  []string `toml:"owners"`
	Members []string `toml:"members"`
	// Blocked are never heard, whatever else speaks for them; only an owner who is listed by his exact id is.
	Blocked []string `toml:"blocked"`
	// PairRole is the role that a pairing gives; raising it is an act of its own.
	PairRole string `toml:"pair_role" default:"guest" oneof:"guest member"`
	// PairNotice tells owners in their private conversations when a stranger asks to be paired.
	PairNotice bool `toml:"pair_notice" default:"true"`
	// RatePerMinute bounds the messages of one sender that are answered, ConversationRatePerMinute those in one conversation, and
	// UnknownRatePerMinute those of everybody together who is neither listed nor paired; pairing codes count as answers.
	RatePerMinute             int `toml:"rate_per_minute" default:"30" range:"1..100_000"`
	ConversationRatePerMinute int `toml:"conversation_rate_per_minute" default:"120" range:"1..100_000"`
	UnknownRatePerMinute      int `toml:"unknown_rate_per_minute" default:"60" range:"1..100_000"`
	// Groups is addressed (answer only when addressed) or all.
	Groups string `toml:"groups" default:"addressed" oneof:"addressed all"`
	// Edits is note, answer or ignore: a message that its sender has changed or taken back is told to the next turn, or a
	// changed one is answered as a new one, or neither.
	Edits string `toml:"edits" default:"note" oneof:"note answer ignore"`
	// Reactions is the same for reactions to messages.
	Reactions string `toml:"reactions" default:"note" oneof:"note answer ignore"`
}

// Modes of access.
const (
	AccessAllowlist = "allowlist"
	AccessOpen      = "open"
	AccessPair      = "pair"
)

// AccessOn is the access of one channel instance: that of all, with what the channel says of its own. The host's own doors for
// programs give no codes, since nobody could read them.
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

// access checks who may talk to Flynn.
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
