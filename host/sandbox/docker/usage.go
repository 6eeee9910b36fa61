package docker

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"

	"github.com/docker/docker/api/types/container"

	"github.com/flynnhost/flynn/host/sandbox/driver"
)

var _ driver.Meter = (*Driver)(nil)

// maxUsage bounds an engine's answer about one container, in bytes.
const maxUsage = 1 << 20

// Usage implements driver.Meter.
func (d *Driver) Usage(ctx context.Context, id string) (driver.Usage, error) {
	ctx, cancel := d.within(ctx, listTimeout)
	defer cancel()
	r, err := d.api.ContainerStatsOneShot(ctx, id)
	if err != nil {
		return driver.Usage{}, d.explain("measure container", err)
	}
	defer r.Body.Close()
	var s container.StatsResponse
	if err := json.NewDecoder(io.LimitReader(r.Body, maxUsage)).Decode(&s); err != nil {
		return driver.Usage{}, fmt.Errorf("measure container: %w", err)
	}
	return driver.Usage{Memory: int64(min(s.MemoryStats.Usage, math.MaxInt64)), Processes: int64(min(s.PidsStats.Current, math.MaxInt64))}, nil
}
