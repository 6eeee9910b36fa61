package process

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"sync"
	"syscall"

	"google.golang.org/grpc"
	"google.golang.org/grpc/stats"
)

// debugEnv has the same effect as the argument -debug.
const debugEnv = "FLYNN_PLUGIN_DEBUG"

func wantsDebug(args []string) bool {
	return os.Getenv(debugEnv) != "" || slices.Contains(args, "-debug") || slices.Contains(args, "--debug")
}

// debug serves parts without being started by a host, for as long as the program runs: start it under a debugger and attach a host. Nothing
// is encrypted; the socket lies in a folder that only the user can enter.
//
// When the host disconnects, Run ends, and the next host configures the plugin again. Variables of the plugin keep their values.
func debug(parts []Part, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	dir, err := os.MkdirTemp("", "flynn-debug")
	if err != nil {
		fmt.Fprintln(stderr, "debug:", err)
		return 1
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "plugin")
	fmt.Fprintf(stdout, "flynn serve --attach INSTANCE=unix:%s\n", path)
	if err := debugOn(ctx, path, parts, stderr); err != nil {
		fmt.Fprintln(stderr, "debug:", err)
		return 1
	}
	return 0
}

// debugOn serves one host after the other on the socket at path, until ctx ends.
func debugOn(ctx context.Context, path string, parts []Part, stderr io.Writer) error {
	for ctx.Err() == nil {
		lis, err := net.Listen("unix", path)
		if err != nil {
			return err
		}
		level := &slog.LevelVar{}
		turn, over := context.WithCancel(ctx)
		log := slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: level}))
		err = serve(turn, lis, log, level, parts, grpc.StatsHandler(&visits{over: over}))
		over()
		if err != nil {
			fmt.Fprintln(stderr, "debug: run ended:", err)
		}
	}
	return nil
}

// visits ends a visit when the last connection is closed.
type visits struct {
	over func()
	mu   sync.Mutex
	open int
}

var _ stats.Handler = (*visits)(nil)

// HandleConn implements stats.Handler.
func (v *visits) HandleConn(_ context.Context, s stats.ConnStats) {
	v.mu.Lock()
	defer v.mu.Unlock()
	switch s.(type) {
	case *stats.ConnBegin:
		v.open++
	case *stats.ConnEnd:
		if v.open--; v.open == 0 {
			v.over()
		}
	}
}

// TagConn implements stats.Handler.
func (v *visits) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

// TagRPC implements stats.Handler.
func (v *visits) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }

// HandleRPC implements stats.Handler.
func (v *visits) HandleRPC(context.Context, stats.RPCStats) {}
