package machine

// Quota bounds what a machine's session may hold on this host.
type Quota interface {
	// Write refuses bytes that are about to be written to the workspace, where it has no room for them.
	Write(bytes int64) error
	// Command refuses a command while the workspace holds more than it may.
	Command() error
	// Process has enter begin a background process, unless there are too many.
	Process(enter func() error) error
}

// noQuota has no bounds.
type noQuota struct{}

func (noQuota) Write(int64) error                { return nil }
func (noQuota) Command() error                   { return nil }
func (noQuota) Process(enter func() error) error { return enter() }
