package rest

import (
	"context"
	"net/http"
	"time"

	"github.com/flynnhost/flynn/host/gateway"
)

// files keeps the files of messages.
type files struct{ gateway.Files }

const fileTimeout = 25 * time.Second // shorter than the server's for an answer

func (f files) register(r *registrar) {
	type upload struct {
		Streamed
		Channel string `query:"channel" required:"true" enum:"web,terminal,console" doc:"Where the message is going to be sent"`
		Name    string `query:"name" required:"true" minLength:"1" maxLength:"256" pattern:"^[^/\\\\\\x00-\\x1f]+$" patternDescription:"a name without its folder"`
	}
	add(r, Operation{ID: "upload-file", Method: http.MethodPost, Path: "/files", Subject: "Conversations", Least: guest,
		Timeout: fileTimeout, Body: gateway.MaxFile,
		Takes: "application/octet-stream", Summary: "Keep a file; its handle goes into a message"},
		func(ctx context.Context, by gateway.Caller, in *upload) (gateway.File, error) {
			sender, err := by.Uploader(in.Channel)
			if err != nil {
				return gateway.File{}, err
			}
			return f.KeepFile(ctx, sender, in.Name, in.body)
		})
}
