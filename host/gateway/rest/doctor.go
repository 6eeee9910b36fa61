package rest

import (
	"context"
	"net/http"
	"time"

	"github.com/flynnhost/flynn/host/gateway"
)

// doctor looks for what is wrong or weak.
type doctor struct{ gateway.Doctor }

func (d doctor) register(r *registrar) {
	const subject = "Doctor"
	add(r, Operation{ID: "examine", Method: http.MethodPost, Path: "/doctor", Subject: subject, Least: owner, Timeout: time.Minute,
		Summary: "Find what is wrong or weak; takes up to 20 seconds, and a few tokens of each model"},
		func(ctx context.Context, _ gateway.Caller, _ *struct{}) (gateway.Examination, error) {
			return d.Examine(ctx)
		})
	type mending struct {
		Code string `path:"code" minLength:"1" maxLength:"64"`
	}
	add(r, Operation{ID: "mend", Method: http.MethodPost, Path: "/doctor/{code}/mend", Subject: subject, Least: owner,
		Summary: "Mend the findings of a code that need no person, as flynn doctor --fix does; the answer is what was mended"},
		func(ctx context.Context, _ gateway.Caller, in *mending) ([]gateway.Finding, error) {
			return orEmpty(d.Mend(ctx, in.Code))
		})
}
