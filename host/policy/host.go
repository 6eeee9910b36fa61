package policy

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
)

// host is the Wasm runtime with the functions that modules may import. The engine and every module hold a reference.
type host struct {
	runtime wazero.Runtime
	offered func() error // instantiates the functions, on first use
	cache   wazero.CompilationCache
	counts  bool      // modules count the blocks that they run
	zone    string    // IANA name of the host's zone
	base    time.Time // the clock's origin
	refs    atomic.Int64
}

func newHost(ctx context.Context, cacheDir string) (*host, error) {
	return newHostOf(ctx, wazero.NewRuntimeConfig(), cacheDir)
}

// newHostOf returns a host that uses wazero's compiler, or its interpreter, so that tests can compare the two.
func newHostOf(ctx context.Context, config wazero.RuntimeConfig, cacheDir string) (*host, error) {
	h := &host{zone: zoneName(), base: time.Now()}
	h.refs.Store(1)
	// Not WithCloseOnContextDone: metered modules stop by themselves, at a tenth of its cost.
	config = config.WithDebugInfoEnabled(false).
		WithCoreFeatures(api.CoreFeaturesV2.SetEnabled(api.CoreFeatureSIMD, false))
	if cacheDir != "" {
		cache, err := openCache(cacheDir)
		if err != nil {
			return nil, err
		}
		h.cache = cache
		config = config.WithCompilationCache(cache)
	}
	h.runtime = wazero.NewRuntimeWithConfig(ctx, config)
	h.offered = sync.OnceValue(func() error { return offer(context.WithoutCancel(ctx), h.runtime) })
	return h, nil
}

// offer instantiates the functions of hostFunctions.
func offer(ctx context.Context, rt wazero.Runtime) error {
	builders := map[string]wazero.HostModuleBuilder{}
	for _, f := range hostFunctions() {
		b, ok := builders[f.module]
		if !ok {
			b = rt.NewHostModuleBuilder(f.module)
			builders[f.module] = b
		}
		b.NewFunctionBuilder().WithGoModuleFunction(f.call, f.params, f.results).Export(f.name)
	}
	for name, b := range builders {
		if _, err := b.Instantiate(ctx); err != nil {
			return fmt.Errorf("offer the functions of %s: %w", name, err)
		}
	}
	return nil
}

func (h *host) retain() { h.refs.Add(1) }

func (h *host) release() error {
	if h.refs.Add(-1) > 0 {
		return nil
	}
	err := h.runtime.Close(context.Background())
	if h.cache != nil {
		err = errors.Join(err, h.cache.Close(context.Background()))
	}
	return err
}

// clock returns the monotonic time since the host's start.
func (h *host) clock() time.Duration { return time.Since(h.base) }

// zoneName returns the IANA name of the local zone, which time.Local does not know.
func zoneName() string {
	if tz, ok := os.LookupEnv("TZ"); ok {
		if tz = strings.TrimPrefix(tz, ":"); tz == "" {
			return "UTC"
		} else if !filepath.IsAbs(tz) {
			return tz
		}
	}
	target, err := filepath.EvalSymlinks("/etc/localtime")
	if _, name, ok := strings.Cut(target, "/zoneinfo/"); err == nil && ok {
		return name
	}
	return "UTC"
}
