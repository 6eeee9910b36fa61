package frame

// StatBody asks what a path is, links within the workspace followed; the Reply's body is an Entry.
type StatBody struct {
	Path []byte `json:"path"`
}

// RemoveBody removes a file, a link or an empty folder; with All, a folder with everything in it. The Reply is empty.
type RemoveBody struct {
	Path []byte `json:"path"`
	All  bool   `json:"all,omitempty"`
}

// ImportBody puts the records that follow on stream In below a folder, all of them or none. The Reply is empty.
type ImportBody struct {
	Path []byte `json:"path"` // of the folder; made if it is missing
}

// ExportBody asks for a folder's records on stream Out, parents before children. The Reply's body is an ExportReply.
type ExportBody struct {
	Path []byte `json:"path"`
	// Bare asks for records without content.
	Bare bool `json:"bare,omitempty"`
	// Known says that bare records follow on stream In: the files that they still describe come as bare ones, too.
	Known bool `json:"known,omitempty"`
	// MaxFile makes larger files come as bare ones. 0: none is too large
	MaxFile int64 `json:"max_file,omitempty"`
}

// MaxLeft bounds the lists of an ExportReply.
const MaxLeft = 20

// ExportReply closes an Export.
type ExportReply struct {
	Skipped int64 `json:"skipped"` // what is no regular file, folder or link, or could not be read
	// Special and Closed name the first of these, by their paths relative to the folder.
	Special [][]byte `json:"special,omitempty"`
	Closed  [][]byte `json:"closed,omitempty"`
	Torn    int64    `json:"torn"` // files that became shorter while they were read; zeros stand for the rest
}
