package quota

// Session is what one session may hold. It implements the Quota of package machine.
type Session struct {
	keeper *Keeper
	key    string
}

// Session returns the quota of a session.
func (k *Keeper) Session(key string) Session { return Session{k, key} }

// Write refuses bytes that the workspace has no room for; see Keeper.Write.
func (s Session) Write(bytes int64) error { return s.keeper.Write(s.key, bytes) }

// Command refuses a command while the workspace holds more than it may.
func (s Session) Command() error { return s.keeper.Command(s.key) }

// Process has enter begin a background process, unless there are too many.
func (s Session) Process(enter func() error) error { return s.keeper.Process(s.key, enter) }
