package gateway

import (
	"errors"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/config/edit"
	"github.com/flynnhost/flynn/host/internal/redact"
	"github.com/flynnhost/flynn/host/store"
)

// NotEdited is an error of an edit.Editor as the API answers it: *NotApplied if the text would be wrong, and store.ErrConflict if the file cannot be
// written or somebody else has changed it. Errors of other kinds stay as they are.
func NotEdited(err error) error {
	var wrong *edit.WrongError
	var file *edit.FileError
	switch {
	case errors.Is(err, store.ErrConflict):
		return store.Conflict(err.Error())
	case errors.As(err, &wrong):
		return &NotApplied{Problems: ProblemsOf(wrong.Err, wrong.Text)}
	case errors.As(err, &file):
		return store.Conflict(err.Error())
	}
	return err
}

// ProblemsOf returns the single errors of a text of flynn.toml, without its secrets.
func ProblemsOf(err error, text []byte) []ConfigurationProblem {
	var all config.Errors
	switch {
	case err == nil:
		return []ConfigurationProblem{}
	case errors.As(err, &all):
		return Problems(all, text)
	}
	_, hidden := config.Hide(string(text))
	return []ConfigurationProblem{{Text: redact.Words(hidden...).Replace(err.Error())}}
}

// maxProblems bounds the problems in an answer.
const maxProblems = 200

// Problems is ProblemsOf for errors that are sorted already.
func Problems(all []config.Error, text []byte) []ConfigurationProblem {
	_, hidden := config.Hide(string(text))
	mask := redact.Words(hidden...)
	out := []ConfigurationProblem{}
	for _, e := range all[:min(len(all), maxProblems)] {
		out = append(out, ConfigurationProblem{Line: e.Line, Key: e.Key, Text: mask.Replace(e.Problem), Next: mask.Replace(e.Hint)})
	}
	return out
}
