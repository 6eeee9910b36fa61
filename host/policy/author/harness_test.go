package author

import (
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/flynnhost/flynn/host/policy"
	"github.com/flynnhost/flynn/sdk/policy/abi"
	"github.com/flynnhost/flynn/sdk/policy/policytest"
	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"
)

type harness struct {
	t    *testing.T
	rt   wazero.Runtime
	mod  api.Module
	c    Case
	data map[string]string
}

func openHarness(t *testing.T, wasmFile string) opener {
	return func(ctx context.Context, c Case) (asker, error) {
		h := &harness{t: t, rt: wazero.NewRuntime(ctx), data: c.Data}
		wasi_snapshot_preview1.MustInstantiate(ctx, h.rt)
		b := h.rt.NewHostModuleBuilder("flynn1")
		give := func(s string, ok bool, buf, size uint32) int32 {
			if !ok {
				return -1
			}
			if len(s) <= int(size) {
				h.mod.Memory().Write(buf, []byte(s))
			}
			return int32(len(s))
		}
		str := func(p, n uint32) string { b, _ := h.mod.Memory().Read(p, n); return string(b) }
		b.NewFunctionBuilder().WithFunc(func(f, i, buf, size uint32) int32 { return give(h.c.Ask.Text, f == 9, buf, size) }).Export("get")
		b.NewFunctionBuilder().WithFunc(func(p, n, buf, size uint32) int32 {
			s, ok := h.arg(str(p, n))
			return give(s, ok, buf, size)
		}).Export("arg")
		b.NewFunctionBuilder().WithFunc(func(p, n uint32) int32 {
			th := &policytest.Host{Args: string(h.c.Args)}
			var kind int
			h.t.Run("kind", func(t *testing.T) {
				th.Use(t)
				kind = policytest.Tool(t, policytest.Frame{}).ArgKind(str(p, n))
			})
			return int32(kind)
		}).Export("arg_kind")
		b.NewFunctionBuilder().WithFunc(func(p, n, buf, size uint32) int32 {
			s, ok := h.data[str(p, n)]
			return give(s, ok, buf, size)
		}).Export("data")
		b.NewFunctionBuilder().WithFunc(func(k, p, n, s, sn uint32) int32 {
			if strings.HasPrefix(str(s, sn), strings.TrimSuffix(str(p, n), "*")) {
				return 1
			}
			return 0
		}).Export("match")
		b.NewFunctionBuilder().WithFunc(func(r, hit uint32) {}).Export("trace")
		b.NewFunctionBuilder().WithFunc(func(l, p, n uint32) { h.t.Log(str(p, n)) }).Export("log")
		if _, err := b.Instantiate(ctx); err != nil {
			return nil, err
		}
		wasm, err := os.ReadFile(wasmFile)
		if err != nil {
			return nil, err
		}
		h.mod, err = h.rt.InstantiateWithConfig(ctx, wasm, wazero.NewModuleConfig().WithStartFunctions("_initialize").WithStderr(os.Stderr))
		return h, err
	}
}

func (h *harness) arg(p string) (s string, ok bool) {
	th := &policytest.Host{Args: string(h.c.Args)}
	h.t.Run("arg", func(t *testing.T) {
		th.Use(t)
		s, ok = policytest.Tool(t, policytest.Frame{}).Arg(p)
		s = strings.Clone(s)
	})
	return s, ok
}

func (h *harness) Close() error { return h.rt.Close(context.Background()) }

func (h *harness) ask(ctx context.Context, c Case) (answered, error) {
	f := c.Ask
	now, _ := f.now()
	text := f.Text[:min(len(f.Text), 1024)]
	fr := policytest.Frame{
		abi.Channel: f.Channel, abi.Conversation: f.Conversation, abi.ConversationKind: f.ConversationKind, abi.Sender: f.Sender, abi.SenderName: f.SenderName,
		abi.Role: f.Role, abi.Text: text, abi.TextLen: len(f.Text), abi.Addressed: f.Addressed, abi.Attachments: f.Attachments, abi.Labels: f.Labels, abi.Door: f.Door,
		abi.UnixTime: int(now.Unix()), abi.MinuteOfDay: now.Hour()*60 + now.Minute(), abi.Weekday: int(now.Weekday()), abi.Zone: f.Zone, abi.Seed: int(f.Seed),
	}
	kind := uint16(abi.FrameRoute)
	if c.Kind == kindTool {
		kind = abi.FrameTool
		fr[abi.Agent], fr[abi.Tool], fr[abi.Effect], fr[abi.Session] = f.Agent, f.Tool, f.Effect, f.Session
		fr[abi.Sandboxed], fr[abi.CallsInTurn], fr[abi.Turns] = f.Sandboxed, f.CallsInTurn, f.Turns
	} else {
		fr[abi.Candidate], fr[abi.Agents] = f.Candidate, f.Agents
	}
	return h.askFrame(ctx, c, fr.Encode(h.t, kind))
}

func (h *harness) askFrame(ctx context.Context, c Case, frame []byte) (answered, error) {
	h.c = c
	fn := "flynn_" + c.Kind
	at, err := h.mod.ExportedFunction("flynn_buffer").Call(ctx, uint64(len(frame)))
	if err != nil {
		return answered{}, err
	}
	h.mod.Memory().Write(uint32(at[0]), frame)
	res, err := h.mod.ExportedFunction(fn).Call(ctx, uint64(len(frame)))
	if err != nil {
		return answered{outcome: Outcome{Answer: "error", Error: "trap: " + err.Error()}}, nil
	}
	raw := int64(res[0])
	out := map[uint16]string{}
	if n := uint32(raw >> 32); n > 0 {
		b, _ := h.mod.Memory().Read(uint32(at[0]), n)
		for i := range int(binary.LittleEndian.Uint16(b[6:])) {
			e := b[16+12*i:]
			o, l := binary.LittleEndian.Uint32(e[4:]), binary.LittleEndian.Uint32(e[8:])
			out[binary.LittleEndian.Uint16(e)] = string(b[o : o+l])
		}
	}
	rec := policy.Record{Raw: raw, Frame: frame, Reason: out[66]}
	v := raw & 0xff
	if c.Kind == kindRoute {
		if v > 2 {
			rec.Error = fmt.Sprintf("answer: verdict %d", v)
		}
		return answered{routeOutcome(policy.RouteAnswer{Decided: v != 0, Agent: out[64]}, rec), rec}, nil
	}
	if v > 7 {
		rec.Error = fmt.Sprintf("answer: verdict %d", v)
	}
	r := policy.Restrictions{Deny: v&1 != 0, Ask: v&2 != 0, Sandbox: v&4 != 0}
	if out[65] != "" {
		r.Sandboxes = []string{out[65]}
	}
	return answered{toolOutcome(r, rec), rec}, nil
}
