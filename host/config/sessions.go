package config

// Sessions says which messages belong to one session, and how messages are queued while an answer is made.
type Sessions struct {
	// Private is peer (all private chats of one sender on one channel are one session) or conversation.
	Private string `toml:"private" default:"peer" oneof:"peer conversation"`
	// Groups is thread (a thread is a session of its own) or conversation (threads belong to the group that they are in).
	Groups string `toml:"groups" default:"thread" oneof:"thread conversation"`
	// Queue is collect (queued messages are answered together), followup (one by one) or interrupt (a further message of the same
	// sender stops the answer, and both are answered together).
	Queue string `toml:"queue" default:"collect" oneof:"collect followup interrupt"`
	// IdleHours is the silence after which the next message begins a new session; 0 is never.
	IdleHours int `toml:"idle_hours" default:"0" range:"0..87_600"`
	// Links join the private chats of sender ids "instance:platform-id" into one session, by a name.
	Links map[string][]string `toml:"links"`
}
