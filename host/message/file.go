package message

// File is what became of an attachment of a message.
type File struct {
	Name   string `json:"name,omitempty"` // as its sender calls it
	Type   string `json:"type,omitempty"` // as its bytes tell it
	Size   int64  `json:"size,omitempty"`
	Digest string `json:"digest,omitempty"`
	Path   string `json:"path,omitempty"` // in the workspace; empty where it was not taken
	Why    string `json:"why,omitempty"`  // when not
}
