package sandbox

// Role says what a container is for. It decides about the capabilities in it.
type Role string

// The roles.
const (
	// Supervised is the role of a container that commands run in.
	Supervised Role = ""
	// Preparer is the role of a container that gives a volume to its user, and ends. No command ever runs in it.
	Preparer Role = "preparer"
)
