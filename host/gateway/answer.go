package gateway

import (
	"net/http"
)

// writeError answers with a problem.
func writeError(w http.ResponseWriter, status int, code, text string) {
	WriteProblem(w, NewProblem(status, code, text))
}

// BadRequest is the error of a request that a client has to correct: its text says what to send.
type BadRequest string

func (e BadRequest) Error() string { return string(e) }

// readOnly is the error of a message to a conversation that can only be read.
type readOnly string

func (e readOnly) Error() string { return string(e) }

// orEmpty makes an empty list [] and not null.
func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}
