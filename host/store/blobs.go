package store

import (
	"context"
	"errors"
	"io"

	"github.com/flynnhost/flynn/host/message"
)

// Bounds of blobs, in bytes.
const (
	MaxBlob  = 256 << 20
	MaxBlobs = 8 << 30 // of all together
)

// Errors of blobs.
var (
	ErrBlobDamaged = errors.New("the file in the database is damaged, and was deleted there")
	ErrBlobSize    = errors.New("the file is too large to be given to other hosts")
	ErrBlobRoom    = errors.New("the database has no room for more files that hosts give each other")
)

// Blobs keeps files that hosts which share the store give each other, by their SHA-256 in lower-case hex. Prune deletes those that nothing
// names, see Retention.Blobs.
type Blobs interface {
	// MissingBlobs returns those of the digests that are not there, and keeps the others for some hours more.
	MissingBlobs(ctx context.Context, digests []string) ([]string, error)
	// PutBlob writes a blob unless it is there. Nobody sees it before it is whole and has its digest.
	PutBlob(ctx context.Context, digest string, body io.Reader) error
	// Blob returns a blob, or ErrNotFound. Instead of io.EOF the reader returns ErrBlobDamaged if the bytes do not have the digest, after
	// deleting them, so that a host that has the file can write it again.
	Blob(ctx context.Context, digest string) (io.Reader, error)
	// DropBlob deletes a blob if there is one.
	DropBlob(ctx context.Context, digest string) error
}

// WantedFile is a file of a message that a host asks others for.
type WantedFile struct {
	ID string
	// Channel and Handle are those of the attachment, Sender sent it, and Most is the number of bytes that it may have. Without a channel
	// the handle is a digest.
	Channel, Handle string
	Sender          message.SenderKey
	Most            int64
}

// FileState is the state of a WantedFile.
type FileState string

// The states.
const (
	FileWanted   FileState = "wanted"
	FileTaken    FileState = "taken" // a host is about to fetch it
	FileAnswered FileState = "answered"
)

// FoundFile is the answer to a WantedFile.
type FoundFile struct {
	State  FileState
	Digest string // of the blob; empty if there is a Problem
	Name   string
	Type   string
	Size   int64
	// Problem says why there is none, in words for people.
	Problem string
}

// WantedFiles asks other hosts for files.
type WantedFiles interface {
	// WantFile asks for a file, and signals that to all hosts.
	WantFile(ctx context.Context, w WantedFile) error
	// WantedFiles returns what other hosts have asked for a moment ago and nobody has taken.
	WantedFiles(ctx context.Context) ([]WantedFile, error)
	// TakeFile says that this host answers. It returns ErrConflict if another one does.
	TakeFile(ctx context.Context, id string) error
	// AnswerFile answers. The host that asked may have ended the request.
	AnswerFile(ctx context.Context, id string, f FoundFile) error
	// FoundFile returns the answer as far as there is one.
	FoundFile(ctx context.Context, id string) (FoundFile, error)
	// ForgetFile ends a request.
	ForgetFile(ctx context.Context, id string) error
}
