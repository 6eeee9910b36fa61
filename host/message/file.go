package message

// File is an attachment of a message in the workspace, or the reason why it is not there.
type File struct {
	Name   string `json:"name,omitempty"` // the sender's name for it
	Type   string `json:"type,omitempty"` // detected from its bytes
	Size   int64  `json:"size,omitempty"`
	Digest string `json:"digest,omitempty"`
	Path   string `json:"path,omitempty"` // in the workspace; empty if it was not taken
	Why    string `json:"why,omitempty"`  // why it was not taken
}
