//go:build unix

package conform

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/flynnhost/flynn/sdk/proto/channelv1"
	"github.com/flynnhost/flynn/sdk/proto/handshake"
	"github.com/flynnhost/flynn/sdk/proto/pluginv1"
	"github.com/flynnhost/flynn/sdk/proto/toolv1"
)

// actor serves the whole contract by hand, without the SDK, and does one thing in its own way, most often wrong: what its mode says. Its settings are the
// address of the fake platform of this test, its secret a token.
type actor struct {
	pluginv1.UnimplementedPluginServer
	channelv1.UnimplementedChannelServer
	toolv1.UnimplementedToolsServer
	mode string
	end  func(code int)

	mu         sync.Mutex
	configured bool
	link       *link  // nil without a lease
	mute       *link  // that is not read; nil before the first send without a lease to receive
	address    string // of the platform
	tie        tie
	sent       map[string]string // message id by key
	revisions  map[string]uint64
	events     []*channelv1.Event // unacked
	next       uint64             // seq of the next event
	stream     int                // the latest one
	window     int
	changed    chan struct{}
}

// is reports whether the actor is to do that wrong.
func (a *actor) is(mode string) bool { return a.mode == mode }

// play is the life of an actor as a process.
func play(mode string) {
	switch mode {
	case "chatty-start":
		fmt.Println("starting up")
	case "crash-start":
		fmt.Fprintln(os.Stderr, "cannot open shared library")
		os.Exit(3)
	case "needs-environment":
		if os.Getenv("TZ") == "" {
			fmt.Fprintln(os.Stderr, "TZ is not set")
			os.Exit(4)
		}
	}
	a := &actor{
		mode: mode, end: os.Exit, sent: map[string]string{}, revisions: map[string]uint64{}, next: 1, window: 1, changed: make(chan struct{}),
		tie: newTie(),
	}
	limit := handshake.MaxFrame
	if a.is("large-frames") {
		limit *= 64
	}
	g := grpc.NewServer(grpc.MaxRecvMsgSize(limit), grpc.MaxSendMsgSize(64<<20), grpc.InTapHandle(a.tap))
	pluginv1.RegisterPluginServer(g, a)
	channelv1.RegisterChannelServer(g, a)
	toolv1.RegisterToolsServer(g, a)
	h := health.NewServer()
	if !a.is("no-health") {
		h.SetServingStatus(handshake.Service, grpc_health_v1.HealthCheckResponse_SERVING)
	}
	grpc_health_v1.RegisterHealthServer(g, h)
	if !a.is("no-controller") {
		g.RegisterService(&grpc.ServiceDesc{
			ServiceName: "plugin.GRPCController", HandlerType: (*any)(nil),
			Methods: []grpc.MethodDesc{{MethodName: "Shutdown", Handler: a.controller}},
		}, a)
	}
	path := filepath.Join(os.Getenv("PLUGIN_UNIX_SOCKET_DIR"), "plugin1")
	lis, err := net.Listen("unix", path)
	if err != nil {
		panic(err)
	}
	fmt.Println("1|1|unix|" + path + "|grpc|")
	go func() { // the lifeline; ends with the process
		_, _ = io.Copy(io.Discard, os.Stdin)
		if !a.is("no-lifeline") {
			os.Exit(0)
		}
	}()
	_ = g.Serve(lis)
}

func (a *actor) controller(_ any, _ context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
	if !a.is("immortal-controller") {
		a.exitSoon()
	}
	return &emptypb.Empty{}, decode(&emptypb.Empty{})
}

// tap sees each call before anything else does, even one that is cut off before the rest of it is read.
func (a *actor) tap(ctx context.Context, call *tap.Info) (context.Context, error) {
	method := map[string]string{"crash-cancel": channelv1.Channel_Send_FullMethodName, "crash-cancel-call": toolv1.Tools_Call_FullMethodName}[a.mode]
	if late, ok := ctx.Deadline(); ok && call.FullMethodName == method && time.Until(late) < time.Second {
		a.end(2)
	}
	return ctx, nil
}

// exitSoon ends the process when the answer has left.
func (a *actor) exitSoon() { time.AfterFunc(20*time.Millisecond, func() { a.end(0) }) }

func (a *actor) Describe(_ context.Context, r *pluginv1.DescribeRequest) (*pluginv1.DescribeResponse, error) {
	if a.is("no-grease") && len(r.ProtoReflect().GetUnknown()) > 0 {
		return nil, status.Error(codes.InvalidArgument, "unknown field 7777")
	}
	d := &pluginv1.DescribeResponse{
		Name: "actor", Version: "1.0.0", Protocols: []uint32{1}, Kinds: []pluginv1.Kind{pluginv1.Kind_KIND_CHANNEL, pluginv1.Kind_KIND_TOOLS},
		Channel: &channelv1.Capabilities{
			Edit: channelv1.EditLevel_EDIT_LEVEL_OWN, Typing: true, Fetch: true, Upload: true, Format: channelv1.TextFormat_TEXT_FORMAT_PLAIN,
			Senders: channelv1.SenderProof_SENDER_PROOF_PROVED, SendsApart: true,
		},
		Tools: &toolv1.Capabilities{Watch: true}, Lease: true,
	}
	switch a.mode {
	case "other-version":
		d.Version = "2.0.0"
	case "fickle":
		d.Channel.Format, d.ConfigSchemaDigest = 0, fmt.Sprintf("%x", time.Now().UnixNano())
	case "hang-describe":
		select {}
	}
	return d, nil
}

func (a *actor) Configure(ctx context.Context, r *pluginv1.ConfigureRequest) (*pluginv1.ConfigureResponse, error) {
	if a.is("no-grease-configure") && r.GetLogLevel() > 4 {
		return nil, status.Error(codes.InvalidArgument, "log level 77")
	}
	var raw map[string]any
	if err := json.Unmarshal(r.GetSettingsJson(), &raw); err != nil {
		if a.is("panic-garbage") {
			a.end(2)
		}
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	out := &pluginv1.ConfigureResponse{}
	wrong := func(path, message string) {
		out.Errors = append(out.Errors, &pluginv1.FieldError{Path: path, Message: message})
	}
	address, isString := raw["address"].(string)
	if !isString {
		if a.is("panic-type") {
			panic("interface conversion")
		}
		wrong("address", "want a string")
	}
	for key := range raw {
		if key != "address" && !a.is("lenient-keys") {
			wrong(key, "unknown key")
		}
	}
	if r.GetSecrets()["token"] == "" && !a.is("lenient-secrets") {
		wrong("secrets.token", "want a token")
	}
	if a.is("tells-secret") {
		wrong("", "cannot sign in with "+r.GetSecrets()["token"])
	}
	if a.is("status-for-fields") && len(out.Errors) > 0 {
		return nil, status.Error(codes.Internal, "bad settings")
	}
	if len(out.Errors) > 0 {
		return out, nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.configured, a.address, a.tie.limited = true, address, r.GetLease()
	if a.tie.limited && !a.is("no-lease-first") {
		return out, nil
	}
	return out, a.connect()
}

func (a *actor) Status(_ *pluginv1.StatusRequest, stream grpc.ServerStreamingServer[pluginv1.StatusResponse]) error {
	if a.is("no-status") {
		<-stream.Context().Done()
		return nil
	}
	state := pluginv1.State_STATE_READY
	if a.is("never-ready") {
		state = pluginv1.State_STATE_CONNECTING
	}
	if err := stream.Send(&pluginv1.StatusResponse{State: state}); err != nil {
		return err
	}
	<-stream.Context().Done()
	return nil
}

func (a *actor) Shutdown(context.Context, *pluginv1.ShutdownRequest) (*pluginv1.ShutdownResponse, error) {
	if a.is("hang-shutdown") {
		select {}
	}
	if !a.is("stay-after-shutdown") {
		a.exitSoon()
	}
	return &pluginv1.ShutdownResponse{}, nil
}

// hear takes a message of the platform.
func (a *actor) hear(m wireLine) {
	a.mu.Lock()
	defer a.mu.Unlock()
	e := &channelv1.Event{
		Seq: a.next, EventId: m.ID, Kind: channelv1.EventKind_EVENT_KIND_MESSAGE, Text: m.Text,
		Conversation: &channelv1.Conversation{Id: "c", Kind: channelv1.ConversationKind_CONVERSATION_KIND_DM}, Sender: &channelv1.Sender{Id: "ann"},
	}
	if m.Media > 0 {
		e.Attachments = []*channelv1.Attachment{{Handle: fmt.Sprint("m", m.Media), Size: uint64(m.Media)}}
	}
	switch a.mode {
	case "seq-from-zero":
		e.Seq--
	case "same-ids":
		e.EventId = "e"
	case "unstable-ids":
		e.EventId = fmt.Sprint(time.Now().UnixNano())
	case "no-sender":
		e.Sender = nil
	case "deaf":
		return
	}
	a.next++
	a.events = append(a.events, e)
	if a.is("acks-early") {
		a.link.put(wireLine{Ack: m.ID})
	}
	a.wake()
}

func (a *actor) wake() {
	close(a.changed)
	a.changed = make(chan struct{})
}

func (a *actor) ready() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.configured && !a.is("eager") {
		return status.Error(codes.FailedPrecondition, "not configured")
	}
	return nil
}

func (a *actor) Receive(stream grpc.BidiStreamingServer[channelv1.ReceiveRequest, channelv1.ReceiveResponse]) error {
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	if first.GetOpen() == nil {
		switch a.mode {
		case "panic-first-frame":
			a.end(2)
		case "any-first-frame":
			<-stream.Context().Done()
			return nil
		}
		return status.Error(codes.InvalidArgument, "want open")
	}
	a.mu.Lock()
	a.stream++
	number := a.stream
	a.window = int(first.GetOpen().GetWindow())
	a.wake()
	a.mu.Unlock()
	acks := make(chan error, 1)
	go func() { acks <- a.acks(stream) }()
	if a.tie.limited {
		a.tie.due()
	}
	for at := 0; ; {
		a.mu.Lock()
		if number != a.stream && !a.is("two-streams") {
			a.mu.Unlock()
			return status.Error(codes.Aborted, "a newer stream")
		}
		var send *channelv1.Event
		floor := uint64(0)
		if len(a.events) > 0 {
			floor = a.events[0].GetSeq()
		}
		for _, e := range a.events[:a.credit()] {
			if e.GetSeq() > uint64(at) || at == 0 && e.GetSeq() == floor {
				send = e
				break
			}
		}
		changed := a.changed
		a.mu.Unlock()
		if send != nil && (at == 0 || send.GetSeq() > uint64(at)) {
			at = int(send.GetSeq())
			if err := stream.Send(&channelv1.ReceiveResponse{Frame: &channelv1.ReceiveResponse_Event{Event: send}}); err != nil {
				return err
			}
			if a.is("forgets-sent") {
				a.release(send.GetSeq())
			}
			continue
		}
		select {
		case <-changed:
		case <-a.tie.ask:
			if err := stream.Send(a.tie.renew()); err != nil {
				return err
			}
		case err := <-acks:
			return err
		}
	}
}

// credit is how many of the unacked events may be on the way.
func (a *actor) credit() int {
	switch {
	case a.is("over-window"):
		return len(a.events)
	case a.is("one-by-one"):
		return min(len(a.events), 1)
	}
	return min(len(a.events), a.window)
}

func (a *actor) release(seq uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := 0
	for n < len(a.events) && a.events[n].GetSeq() <= seq {
		if a.link != nil && !a.is("acks-early") {
			a.link.put(wireLine{Ack: a.events[n].GetEventId()})
		}
		n++
	}
	a.events = a.events[n:]
	a.wake()
}

func (a *actor) acks(stream grpc.BidiStreamingServer[channelv1.ReceiveRequest, channelv1.ReceiveResponse]) error {
	for {
		frame, err := stream.Recv()
		if err != nil {
			return err
		}
		if l := frame.GetLease(); l != nil {
			if err := a.lease(l); err != nil {
				return err
			}
			continue
		}
		ack := frame.GetAck()
		if ack == nil {
			if a.is("no-grease-frame") {
				return status.Error(codes.InvalidArgument, "unknown frame")
			}
			continue
		}
		a.mu.Lock()
		sent := a.next - 1
		a.mu.Unlock()
		if ack.GetSeq() > sent {
			switch a.mode {
			case "panic-ack":
				panic("index out of range")
			case "any-ack":
				continue
			}
			return status.Error(codes.InvalidArgument, "ack of what was never sent")
		}
		if len(ack.GetRejected()) > 0 {
			switch a.mode {
			case "crash-rejected":
				a.end(2)
			case "rejected-again":
				continue
			}
		}
		a.release(ack.GetSeq())
	}
}

func (a *actor) Send(_ context.Context, r *channelv1.SendRequest) (*channelv1.SendResponse, error) {
	if err := a.ready(); err != nil {
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.is("no-grease-send") && r.GetFormat() > 2 {
		return nil, status.Error(codes.InvalidArgument, "unknown format")
	}
	if id, ok := a.sent[r.GetIdempotencyKey()]; ok && !a.is("sends-twice") {
		if a.is("shows-twice") {
			a.link.put(wireLine{Show: r.GetText()})
		}
		return &channelv1.SendResponse{Outcome: channelv1.Outcome_OUTCOME_DUPLICATE, MessageIds: []string{id}}, nil
	}
	if !a.sends() && !a.is("sends-on") {
		return &channelv1.SendResponse{Outcome: channelv1.Outcome_OUTCOME_NOT_SENT, Detail: "there is no lease"}, nil
	}
	id := fmt.Sprint("m", len(a.sent)+1)
	a.sent[r.GetIdempotencyKey()] = id
	if a.configured && !a.is("pretends-to-send") {
		a.out().put(wireLine{Show: r.GetText()})
	}
	return &channelv1.SendResponse{Outcome: channelv1.Outcome_OUTCOME_SENT, MessageIds: []string{id}}, nil
}

func (a *actor) Edit(_ context.Context, r *channelv1.EditRequest) (*channelv1.EditResponse, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if r.GetRevision() <= a.revisions[r.GetMessageId()] && !a.is("edits-stale") {
		return &channelv1.EditResponse{}, nil
	}
	a.revisions[r.GetMessageId()] = r.GetRevision()
	return &channelv1.EditResponse{Applied: true}, nil
}

func (a *actor) React(ctx context.Context, r *channelv1.ReactRequest) (*channelv1.ReactResponse, error) {
	if a.is("undeclared-react") {
		return &channelv1.ReactResponse{}, nil
	}
	return a.UnimplementedChannelServer.React(ctx, r)
}

func (a *actor) SetTyping(_ context.Context, r *channelv1.SetTypingRequest) (*channelv1.SetTypingResponse, error) {
	if !r.GetTyping() {
		return &channelv1.SetTypingResponse{}, nil
	}
	a.link.put(wireLine{Typing: true})
	if a.is("types-for-ever") {
		go func() { // ends with the process
			for range time.Tick(100 * time.Millisecond) {
				a.link.put(wireLine{Typing: true})
			}
		}()
	}
	return &channelv1.SetTypingResponse{}, nil
}

func (a *actor) Fetch(r *channelv1.FetchRequest, stream grpc.ServerStreamingServer[channelv1.FetchResponse]) error {
	var size int
	if _, err := fmt.Sscanf(r.GetHandle(), "m%d", &size); err != nil {
		if a.is("crash-fetch") {
			a.end(2)
		}
		return status.Error(codes.NotFound, "no such handle")
	}
	piece := handshake.MaxChunk
	head := &channelv1.MediaHead{Size: uint64(size)}
	switch a.mode {
	case "large-chunks":
		piece *= 2
	case "short-media":
		head.Size++
	}
	if err := stream.Send(&channelv1.FetchResponse{Frame: &channelv1.FetchResponse_Head{Head: head}}); err != nil {
		return err
	}
	for chunk := range slices.Chunk(make([]byte, size), piece) {
		if err := stream.Send(&channelv1.FetchResponse{Frame: &channelv1.FetchResponse_Chunk{Chunk: chunk}}); err != nil {
			return err
		}
	}
	return nil
}

func (a *actor) Upload(stream grpc.ClientStreamingServer[channelv1.UploadRequest, channelv1.UploadResponse]) error {
	for {
		_, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			handle := "up"
			if a.is("no-handle") {
				handle = ""
			}
			return stream.SendAndClose(&channelv1.UploadResponse{Handle: handle})
		}
		if err != nil {
			return err
		}
	}
}

func (a *actor) List(context.Context, *toolv1.ListRequest) (*toolv1.ListResponse, error) {
	schema := `{"type":"object"}`
	if a.is("broken-schema") {
		schema = `{`
	}
	tool := &toolv1.Tool{Name: "echo", InputSchemaJson: []byte(schema)}
	if a.is("tool-twice") {
		return &toolv1.ListResponse{Tools: []*toolv1.Tool{tool, tool}}, nil
	}
	return &toolv1.ListResponse{Tools: []*toolv1.Tool{tool}}, nil
}

func (a *actor) Watch(_ *toolv1.WatchRequest, stream grpc.ServerStreamingServer[toolv1.WatchResponse]) error {
	if !a.is("silent-watch") {
		if err := stream.Send(&toolv1.WatchResponse{Revision: 1}); err != nil {
			return err
		}
	}
	<-stream.Context().Done()
	return nil
}

func (a *actor) Call(r *toolv1.CallRequest, stream grpc.ServerStreamingServer[toolv1.CallResponse]) error {
	result := &toolv1.CallResponse{Frame: &toolv1.CallResponse_Result{Result: &toolv1.Result{Text: "done"}}}
	progress := &toolv1.CallResponse{Frame: &toolv1.CallResponse_Progress{Progress: &toolv1.Progress{Done: 1}}}
	switch {
	case r.GetTool() != "echo" && a.is("any-tool"):
	case r.GetTool() != "echo":
		return status.Error(codes.InvalidArgument, "no such tool")
	case !json.Valid(r.GetArgumentsJson()) && a.is("any-arguments"):
	case !json.Valid(r.GetArgumentsJson()):
		result.GetResult().IsError = true
	}
	frames := []*toolv1.CallResponse{progress, result}
	switch a.mode {
	case "no-result":
		frames = frames[:1]
	case "progress-last":
		slices.Reverse(frames)
	}
	for _, f := range frames {
		if err := stream.Send(f); err != nil {
			return err
		}
	}
	return nil
}
