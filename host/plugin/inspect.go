package plugin

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/flynnhost/flynn/sdk/proto/bounds"
	"github.com/flynnhost/flynn/sdk/proto/pluginv1"
)

// Inspection is the description of a plugin by its manifest and by its process.
type Inspection struct {
	Manifest Manifest `json:"manifest"`
	// Describe is the answer of the process, in the JSON form of DescribeResponse.
	Describe json.RawMessage `json:"describe"`
	// Disagreements are the differences between the two, because of which the host would refuse it.
	Disagreements []string `json:"disagreements"`
	// Services are the gRPC services of the process; empty if it does not report them.
	Services []string      `json:"services"`
	Start    time.Duration `json:"start_ns"` // up to the answer of Describe
}

// inspectTimeout bounds the calls; the start has its own bound in the manifest.
const inspectTimeout = 5 * time.Second

// Inspect starts a process, calls Describe and ends it. The process gets neither configuration nor secrets.
func Inspect(ctx context.Context, c ProbeConfig) (Inspection, error) {
	began := time.Now()
	t, err := StartProbe(ctx, c)
	if err != nil {
		return Inspection{}, err
	}
	defer t.Close()
	ctx, cancel := context.WithTimeout(ctx, inspectTimeout)
	defer cancel()
	d, err := pluginv1.NewPluginClient(t.Conn()).Describe(ctx, &pluginv1.DescribeRequest{})
	if err != nil {
		return Inspection{}, fmt.Errorf("describe: %w", err)
	}
	out := Inspection{Manifest: t.Manifest(), Disagreements: t.Disagreements(d), Start: time.Since(began)}
	if out.Describe, err = protojson.Marshal(d); err != nil {
		return Inspection{}, fmt.Errorf("encode the description of the process: %w", err)
	}
	out.Services = t.services(ctx)
	return out, nil
}

// maxServices bounds Inspection.Services.
const maxServices = 64

// services asks by gRPC reflection, which Go plugins have and others may lack.
func (t *Probe) services(ctx context.Context) []string {
	stream, err := grpc_reflection_v1.NewServerReflectionClient(t.Conn()).ServerReflectionInfo(ctx)
	if err != nil {
		return nil
	}
	ask := &grpc_reflection_v1.ServerReflectionRequest{
		MessageRequest: &grpc_reflection_v1.ServerReflectionRequest_ListServices{ListServices: "*"},
	}
	if stream.Send(ask) != nil || stream.CloseSend() != nil {
		return nil
	}
	answer, err := stream.Recv()
	if err != nil {
		return nil
	}
	var names []string
	list := answer.GetListServicesResponse().GetService()
	for _, s := range list[:min(len(list), maxServices)] {
		if bounds.ID(s.GetName()) == nil {
			names = append(names, s.GetName())
		}
	}
	slices.Sort(names)
	return names
}
