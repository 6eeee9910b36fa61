package gateway

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// ProblemType is the media type of errors.
const ProblemType = "application/problem+json"

// Problem is the body of every error of the HTTP API, as RFC 9457 has it. Code is one of the constants above, for programs.
type Problem struct {
	Title  string `json:"title" doc:"What kind of error it is: the text of the status"`
	Status int    `json:"status" doc:"The HTTP status"`
	Detail string `json:"detail" doc:"What is wrong, and what to do about it"`
	Code   string `json:"code" doc:"A word for programs"`
	// Errors are the single faults of a request.
	Errors []Fault `json:"errors,omitempty" doc:"Each fault of the request"`
}

// Fault is what is wrong with one value of a request.
type Fault struct {
	Location string `json:"location,omitempty" doc:"Where it is, such as body.role or query.limit"`
	Message  string `json:"message" doc:"What is wrong with it"`
}

// NewProblem returns the problem of a status.
func NewProblem(status int, code, detail string) *Problem {
	return &Problem{Title: http.StatusText(status), Status: status, Code: code, Detail: detail}
}

// Error implements error.
func (p *Problem) Error() string { return p.Detail }

// ProblemOf returns the problem of an error of the backend.
func ProblemOf(err error) *Problem {
	if p := (*Problem)(nil); errors.As(err, &p) {
		return p
	}
	code := errorCode(err)
	status, ok := map[string]int{
		CodeBadRequest: http.StatusBadRequest, CodeNotFound: http.StatusNotFound, CodeNotAllowed: http.StatusUnprocessableEntity,
		CodeConflict: http.StatusConflict, CodeLimited: http.StatusTooManyRequests, CodeForbidden: http.StatusForbidden, CodeReadOnly: http.StatusForbidden,
		CodeTooLarge: http.StatusRequestEntityTooLarge,
	}[code]
	if !ok {
		status = http.StatusServiceUnavailable
	}
	p := NewProblem(status, code, err.Error())
	p.Errors = faultsOf(err)
	return p
}

// faultsOf returns the single faults that an error has.
func faultsOf(err error) (faults []Fault) {
	var wrong *NotApplied
	var refused *Refusal
	switch {
	case errors.As(err, &wrong):
		for _, p := range wrong.Problems {
			f := Fault{Location: p.Key, Message: p.Text}
			if p.Line > 0 {
				f.Location = strings.TrimPrefix(fmt.Sprintf("%s line %d", p.Key, p.Line), " ")
			}
			if p.Next != "" {
				f.Message += " (" + p.Next + ")"
			}
			faults = append(faults, f)
		}
	case errors.As(err, &refused):
		faults = refused.Faults
	}
	return faults
}

// WriteProblem answers with a problem.
func WriteProblem(w http.ResponseWriter, p *Problem) {
	w.Header().Set("Content-Type", ProblemType)
	w.WriteHeader(p.Status)
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(p) // fails only if the client has gone
}
